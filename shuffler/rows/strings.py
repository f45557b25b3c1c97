"""StringPool: strings as integer codes, so that columns stay numeric on the hot path.

The code of a string follows from the string: rows that are dealt out by it go to the same unit whoever sends them, and
after a restart, too. Strings that no event inside the window still holds are forgotten, so that a stream of
ever new strings (ids, say) needs memory for its window only.
"""

from __future__ import annotations

import hashlib

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from decopa.query.schema import NULL

Codes = npt.NDArray[np.int64]

#: Fewer strings than this are not worth a pass that looks for old ones.
FORGET_ABOVE = 65_536
_CODES = 1 << 62


class StringPool:
    """Interns strings for one pass over a trace at a time."""

    def __init__(self) -> None:
        self._code_of: dict[str, int] = {}
        self._text_of: dict[int, str] = {}
        self._last_use_us: dict[int, int] = {}
        self._pinned: set[int] = set()
        self._forget_above = FORGET_ABOVE

    def __len__(self) -> int:
        return len(self._text_of)

    def pin(self, text: str) -> int:
        """The code of a string that is never forgotten: a constant of a query."""
        code = self._intern(text)
        self._pinned.add(code)
        return code

    def encode(self, column: pa.Array, now_us: int) -> Codes:
        """Codes of an Arrow string (or dictionary) column; null becomes NULL. `now_us` is the batch's last time."""
        indices, texts = distinct_texts(column)
        known = self._code_of
        distinct = [NULL if text is None else known[text] if text in known else self._intern(text) for text in texts]
        self._last_use_us.update(dict.fromkeys(distinct, now_us))
        self._last_use_us.pop(NULL, None)
        codes: Codes = np.array(distinct, dtype=np.int64)[indices]
        return codes

    def decode(self, codes: Codes) -> pa.Array:
        """The strings behind codes, as an Arrow array; a KeyError means that a string was forgotten too early."""
        distinct, inverse = np.unique(codes, return_inverse=True)
        texts = [None if code == NULL else self._text_of[code] for code in distinct.tolist()]
        return pa.array(texts, type=pa.string()).take(pa.array(inverse.reshape(-1)))

    def forget_before(self, horizon_us: int) -> None:
        """Drops strings last seen before the horizon, when enough have gathered to be worth a pass."""
        if len(self._text_of) < self._forget_above:
            return
        for code in [code for code, last in self._last_use_us.items() if last < horizon_us]:
            if code not in self._pinned:
                del self._last_use_us[code]
                del self._code_of[self._text_of.pop(code)]
        self._forget_above = max(FORGET_ABOVE, 2 * len(self._text_of))

    def codes(self) -> dict[str, int]:
        """The code of each string that is known now."""
        return dict(self._code_of)

    def _intern(self, text: str) -> int:
        code = self._code_of.get(text)
        if code is None:
            code = _hashed(text)
            while code in self._text_of:  # another string has it: rarer than any other failure, yet not a wrong match
                code = (code + 1) % _CODES
            self._code_of[text] = code
            self._text_of[code] = text
        return code


def _hashed(text: str) -> int:
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little") % _CODES


def distinct_texts(column: pa.Array) -> tuple[npt.NDArray[np.integer], list[str | None]]:
    """The distinct strings of a string or dictionary column, and for each row the position of its own.

    A dictionary larger than the column (a slice of a long one) is cut down to what the column uses, so that the
    work follows the rows. Null has a position too, if there is any.
    """
    encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    dictionary = encoded.dictionary
    indices = encoded.indices
    if indices.null_count:
        indices = indices.cast(pa.int64()).fill_null(len(dictionary))
        dictionary = pa.concat_arrays([dictionary, pa.nulls(1, dictionary.type)])
    positions = indices.to_numpy(zero_copy_only=False)
    if len(dictionary) > len(column):
        used, positions = np.unique(positions, return_inverse=True)
        dictionary = dictionary.take(pa.array(used))
    return positions, dictionary.to_pylist()
