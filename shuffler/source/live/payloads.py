"""What sources of payloads have in common: records of a partition -> an arrival; bad payloads are put aside."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from decopa.errors import TraceError
from shuffler.rows.columns import Ints, Place
from shuffler.rows.events import TraceColumns
from shuffler.source.dead_letters import DeadLetters
from shuffler.source.letters import cut
from shuffler.source.live.address import SourceAddress
from shuffler.source.live.decoding import Decoder, infer_columns
from shuffler.source.live.interface import Arrival

_UTC = pa.timestamp("us", "UTC")


@dataclass(frozen=True, slots=True)
class Records:
    """Records of one partition in the order of their offsets; `times_us` are the broker's, if they are asked for."""

    partition: str
    payloads: Sequence[bytes | None]
    offsets: Ints
    times_us: Ints | None = None


class PayloadReader:
    """Decodes the records of a source. `first` gets the first payloads, where the user has not said what they hold."""

    def __init__(
        self,
        address: SourceAddress,
        columns: TraceColumns,
        letters: DeadLetters,
        first: Callable[[], Sequence[bytes]],
    ) -> None:
        self._address, self._letters = address, letters
        self._record_time = columns.ts if address.record_time else None
        given = dict(address.columns)
        if self._record_time is not None:
            given.pop(self._record_time, None)
        wanted = set(columns.required) - {self._record_time}
        self._first: Sequence[bytes] = ()
        if not wanted <= given.keys():
            self._first = first()
            given = infer_columns(address.format, self._first, columns.ts, address.name) | given
        self._decoder = Decoder(address.format, given)
        self.columns = given
        self.schema = self._decoder.schema
        if self._record_time is not None:
            self.schema = self.schema.append(pa.field(self._record_time, _UTC))
        self._names: list[str] = self.schema.names

    def choose(self, names: Sequence[str]) -> None:
        """Rows have these columns from now on."""
        self._names = list(names)

    def sample(self, column: str) -> pa.Array | None:
        """Values of a column in the first payloads, where they were looked at."""
        if not self._first or column not in self.columns:
            return None
        return self._decoder.decode(self._first, [column]).rows.column(0)

    def arrival(self, records: Records, moved: Mapping[str, int]) -> Arrival:
        """The records as rows; `moved` are the offsets that they move on."""
        place = Place(f"{self._address.name}, partition {records.partition}" if records.partition else
                      self._address.name, order=records.offsets, by_offset=True)  # fmt: skip
        names = [name for name in self._names if name != self._record_time]
        decoded = self._decoder.decode(records.payloads, names)
        if decoded.bad:
            self._put_aside(records, decoded.bad, place)
        rows = decoded.rows
        if self._record_time is not None:
            assert records.times_us is not None
            times = pa.array(records.times_us[decoded.payloads]).cast(_UTC)
            rows = rows.append_column(self._record_time, times).select(self._names)
        whole = len(decoded.payloads) == len(records.offsets) and not decoded.bad
        offsets = records.offsets if whole else records.offsets[decoded.payloads]
        return Arrival(records.partition, rows, Place(place.source, order=offsets, by_offset=True), moved)

    def _put_aside(self, records: Records, bad: Sequence[tuple[int, str]], place: Place) -> None:
        if not self._letters.diverting:
            index, reason = bad[0]
            raise TraceError(
                f"{place.source}, {place.at(index)}: {reason}; send payloads that fit, say what columns hold with "
                "--schema, or put such payloads aside with --bad-rows divert"
            )
        self._letters.put_values(
            place, [(index, reason, {"payload": _shown(records.payloads[index])}) for index, reason in bad]
        )


def _shown(payload: bytes | None) -> str | None:
    return None if payload is None else cut(payload.decode("utf-8", "backslashreplace"))


def grouped(partitions: Ints, rows: int) -> list[tuple[int, Ints]]:
    """Each partition with the indices of its records, in their order."""
    if not rows:
        return []
    if (partitions == partitions[0]).all():
        return [(int(partitions[0]), np.arange(rows))]
    order = np.argsort(partitions, kind="stable")
    names, starts = np.unique(partitions[order], return_index=True)
    return [(int(name), some) for name, some in zip(names, np.split(order, starts[1:]), strict=True)]
