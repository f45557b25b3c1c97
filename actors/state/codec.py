"""States of processes to and from bytes: what units hold, and where shufflers are in dealing out events.

Rows travel through the codecs that messages use, so codes of strings are those of the process that reads. A state is
bound to its plan: one of another query, split or number of units is refused (see `actors.state.migrate` for the last).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import pyarrow as pa

from actors.columnar.output import Counters
from actors.group import GroupState
from actors.operators.base import LogicState
from actors.operators.row_sets import row_sets
from actors.state.file import StoredRows, read_state, refusing, write_state
from actors.unit import Channel, UnitState
from decopa.errors import CheckpointError
from decopa.planning.plan import PlanOperator
from decopa.query.binding import BoundQuery
from shuffler.exchange.wire import BatchCodec
from shuffler.routing.feeder import FeederState
from shuffler.routing.table import END_OF_STREAM, NOTHING_YET, RoutingTable, SenderState
from shuffler.rows.batch import Batch
from shuffler.rows.layout import layout_of
from shuffler.rows.strings import StringPool


@dataclass(frozen=True)
class UnitsState:
    """Units of copy `copy` of the part of a plan with key `part`; `numbers` is for whoever hosts them."""

    part: str
    copy: int
    group: GroupState
    numbers: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class ShufflerState:
    """Shuffler `number`: its feeder for each part of the plan; `numbers` is for whoever hosts it."""

    number: int
    feeders: tuple[FeederState, ...]
    numbers: Mapping[str, int] = field(default_factory=dict)


class UnitsCodec:
    """Encodes and decodes units of one part of a plan; `strings` is the pool of the process it works in.

    The pool must still know the strings of a state that is encoded: do it before the units go on. `key` finds the
    part in a checkpoint; older ones tell parts by their `place` in the plan.
    """

    def __init__(
        self, routing: RoutingTable, bound: BoundQuery, strings: StringPool, *, key: str = "", place: int = 0
    ) -> None:
        self._routing, self.key, self._place = routing, key, place
        self._codecs = {
            operator.name: {
                name: BatchCodec(bound, layout_of(bound, rows.sub_query), strings)
                for name, rows in row_sets(routing.plan, operator).items()
            }
            for operator in routing.plan.operators
            if operator.inputs
        }

    def encode(self, state: UnitsState) -> bytes:
        group = state.group
        header = {
            "kind": "units",
            "plan": plan_document(self._routing),
            "part": state.part,
            "copy": state.copy,
            "units": [_unit_to(key, unit, group.senders[key]) for key, unit in group.units.items()],
            **({"views": [[*key, _sender_to(sender)] for key, sender in group.views.items()]} if group.views else {}),
            "numbers": dict(state.numbers),
        }
        return write_state(header, self._rows_of(group))

    def decode(self, content: bytes | pa.Buffer, where: str, *, verified: bool = False) -> UnitsState:
        """The state with string codes of this process; a CheckpointError says why `where` cannot be used."""
        header, stored = read_state(content, where, verified=verified)
        with refusing(where):
            _check_kind(header, "units", where)
            check_plan(header["plan"], self._routing, where)
            if not self._is_mine(header):
                raise CheckpointError(f"{where} is of part {header['part']} of the plan, not of part {self.key}")
            rows: dict[tuple[str, int], dict[str, Batch]] = {}
            for one in stored:
                rows.setdefault((one.operator, one.unit), {})[one.name] = self._decoded(one)
            units, senders = {}, {}
            for item in header["units"]:
                key = (item["operator"], _whole(item["unit"]))
                operator = self._routing.plan.operator(key[0])
                if key[1] not in range(self._routing.plan.roles(operator).active_units) or key in units:
                    raise ValueError(f"no or a second unit {key[1]} of operator {key[0]}")
                units[key] = _unit_from(item, rows.pop(key, {}), len(operator.inputs))
                if units[key].logic.rows.keys() != self._codecs[key[0]].keys():
                    raise ValueError(f"rows of unit {key[0]}/{key[1]} are missing")
                senders[key] = _sender_from(item["sender"])
            if rows:
                raise ValueError("it has rows of units that it does not list")
            views = {
                (self._routing.plan.operator(name).name, _whole(number)): _sender_from(sender)
                for name, number, sender in header.get("views", [])
            }
            return UnitsState(self.key, _whole(header["copy"]), GroupState(units, senders, views), _numbers(header))

    def _is_mine(self, header: Mapping[str, Any]) -> bool:
        return bool(header["part"] in (self.key, self._place) and not isinstance(header["part"], bool))

    def _rows_of(self, group: GroupState) -> Iterator[StoredRows]:
        for (operator, number), unit in group.units.items():
            for name, rows in unit.logic.rows.items():
                codec = self._codecs[operator][name]
                yield StoredRows(operator, number, name, codec.description, rows.length, codec.encode([rows]))

    def _decoded(self, stored: StoredRows) -> Batch:
        codec = self._codecs[stored.operator][stored.name]
        if stored.columns != codec.description:
            raise ValueError(f"{stored.operator} {stored.name} has columns {stored.columns}, not {codec.description}")
        rows = codec.decode(stored.encoded, trusted=False)
        if rows.length != stored.length:
            raise ValueError(f"{stored.operator} {stored.name} has {rows.length} rows, not {stored.length}")
        return rows


def part_key(content: bytes | pa.Buffer, where: str, keys: Sequence[str]) -> str:
    """The key of the part that a state is of, one of `keys`; older states tell it by its place among them."""
    header, _ = read_state(content, where, verified=True)
    with refusing(where):
        _check_kind(header, "units", where)
        part = header["part"]
        if part in keys:
            return str(part)
        if isinstance(part, int) and not isinstance(part, bool) and 0 <= part < len(keys):
            return keys[part]
    raise CheckpointError(f"{where} is of part {part}, which the plan does not have; go on with the plan that it has")


def encode_shuffler(routings: Sequence[RoutingTable], state: ShufflerState, keys: Sequence[str] = ()) -> bytes:
    """`keys` are those of the plan's parts; without them parts are told by their place."""
    header = {
        "kind": "shuffler",
        **({"keys": list(keys)} if keys else {}),
        "plans": [plan_document(routing) for routing in routings],
        "number": state.number,
        "feeders": [
            [{leaf: _sender_to(sender) for leaf, sender in senders.items()} for senders in feeder]
            for feeder in state.feeders
        ],
        "numbers": dict(state.numbers),
    }
    return write_state(header, ())


def decode_shuffler(
    routings: Sequence[RoutingTable],
    content: bytes | pa.Buffer,
    where: str,
    *,
    verified: bool = False,
    keys: Sequence[str] = (),
) -> ShufflerState:
    """What `encode_shuffler` was given, in the order of the routings, whose keys are `keys`; a CheckpointError says why
    `where` cannot be used."""
    header, _ = read_state(content, where, verified=verified)
    with refusing(where):
        _check_kind(header, "shuffler", where)
        if len(header["plans"]) != len(routings) or len(header["feeders"]) != len(routings):
            raise CheckpointError(f"{where} is of {len(header['plans'])} queries, the plan has {len(routings)}")
        places = list(range(len(routings)))
        if keys and "keys" in header:
            if sorted(header["keys"]) != sorted(keys):
                raise CheckpointError(f"{where} is of other parts of a plan; go on with the plan that it has")
            places = [header["keys"].index(key) for key in keys]
        for place, routing in zip(places, routings, strict=True):
            check_plan(header["plans"][place], routing, where)
        feeders = tuple(
            tuple({leaf: _sender_from(sender) for leaf, sender in senders.items()} for senders in feeder)
            for feeder in (header["feeders"][place] for place in places)
        )
        return ShufflerState(_whole(header["number"]), feeders, _numbers(header))


def plan_document(routing: RoutingTable) -> dict[str, Any]:
    """What of a plan a state depends on."""
    return {
        "query": str(routing.plan.query),
        "slices": routing.plan.slices,
        "shufflers": routing.shufflers,
        **({"viewed": dict(routing.viewed)} if routing.viewed else {}),
        "operators": {operator.name: _operator_document(operator) for operator in routing.plan.operators},
    }


def check_plan(saved: Mapping[str, Any], routing: RoutingTable, where: str) -> None:
    """Refuses a state that was saved under another plan."""
    mine = plan_document(routing)
    if saved == mine:
        return
    if saved["query"] != mine["query"]:
        raise CheckpointError(f"{where} is of another query: {' '.join(saved['query'].split())}")
    check_split(saved["operators"], mine["operators"], where)
    raise CheckpointError(f"{where} was saved with other numbers of units, shufflers or slices; rescale it first")


def check_split(saved: Mapping[str, Any], mine: Mapping[str, Any], where: str) -> None:
    """Refuses operators that do other work than those of the plan, whatever their units."""
    for name in [*saved, *mine]:
        ours, theirs = ({key: one.get(name, {}).get(key) for key in _WORK} for one in (mine, saved))
        if ours != theirs:
            raise CheckpointError(
                f"{where} is of another plan: operator {name} differs; go on with the plan that it has"
            )


#: What an operator does; its other properties say on how many units.
_WORK = ("positions", "closed", "inputs", "view")


def _operator_document(operator: PlanOperator) -> dict[str, Any]:
    return {
        "positions": sorted(operator.sub_query.aliases),
        "closed": sorted(operator.sub_query.closed),
        "inputs": list(operator.inputs),
        "units": operator.units,
        "partitioned": operator.partitioned,
        **(
            {} if operator.view is None else {"view": [operator.view.part, operator.view.operator, operator.view.names]}
        ),
    }


def _unit_to(key: tuple[str, int], unit: UnitState, sender: SenderState) -> dict[str, Any]:
    return {
        "operator": key[0],
        "unit": key[1],
        "watermarks": list(unit.logic.watermarks),
        "channels": [[channel.side, channel.sender, mark] for channel, mark in unit.watermarks.items()],
        "counters": asdict(unit.counters),
        "sender": _sender_to(sender),
    }


def _unit_from(item: Mapping[str, Any], rows: Mapping[str, Batch], sides: int) -> UnitState:
    watermarks = tuple(map(_whole, item["watermarks"]))
    if len(watermarks) != sides:
        raise ValueError(f"unit {item['operator']}/{item['unit']} has {len(watermarks)} watermarks for {sides} inputs")
    channels = {Channel(_whole(side), str(sender)): _whole(mark) for side, sender, mark in item["channels"]}
    counters = Counters(**{name: _whole(value) for name, value in item["counters"].items()})
    return UnitState(LogicState(rows, watermarks), channels, counters)


def _sender_to(sender: SenderState) -> dict[str, Any]:
    return {"watermark_us": sender.watermark_us, "turns": list(sender.turns)}


def _sender_from(item: Mapping[str, Any]) -> SenderState:
    return SenderState(_whole(item["watermark_us"]), tuple(map(_whole, item["turns"])))


def _check_kind(header: Mapping[str, Any], kind: str, where: str) -> None:
    if header["kind"] != kind:
        raise CheckpointError(f"{where} is the state of {header['kind']}, not of {kind}; give each process its own")


def _numbers(header: Mapping[str, Any]) -> dict[str, int]:
    return {name: _whole(value) for name, value in header["numbers"].items()}


def _whole(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not NOTHING_YET <= value <= END_OF_STREAM:
        raise ValueError(f"{value!r} is no 64-bit number")
    return value
