"""Documents of a checkpoint hold what they should: every field is there, of its kind, and no other."""

from __future__ import annotations

from dataclasses import MISSING, fields
from typing import Any, TypeVar

from decopa.errors import CheckpointError

Record = TypeVar("Record")
#: How fields are annotated, and what JSON has for them.
_KINDS: dict[str, tuple[type, ...]] = {
    "str": (str,),
    "int": (int,),
    "float": (int, float),
    "bool": (bool,),
    "tuple": (tuple,),
    "Mapping": (dict,),
    "None": (type(None),),
}
#: Numbers are counts, sizes, seconds and places in a stream.
_LARGEST = 2**62


def checked(record: type[Record], document: Any, where: str) -> Record:
    """The dataclass made of the document, which must have its fields, of their kinds, and no others."""
    if not isinstance(document, dict):
        raise CheckpointError(f"{where} is damaged: it is no object")
    known = {one.name: one for one in fields(record)}  # type: ignore[arg-type]
    for name, value in document.items():
        if name not in known:
            raise CheckpointError(f"{where} is damaged: it has a field '{name}' that this decopa does not know")
        _check(value, str(known[name].type), f"{where} is damaged: '{name}'")
    for name, one in known.items():
        if name not in document and one.default is MISSING and one.default_factory is MISSING:
            raise CheckpointError(f"{where} is damaged: '{name}' is missing")
    return record(**document)


def _check(value: Any, annotation: str, what: str) -> None:
    """`annotation` is as in 'float | None'; of what is in a mapping or a tuple nothing is said."""
    kinds = tuple(kind for part in annotation.split(" | ") for kind in _KINDS[part.partition("[")[0]])
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        raise CheckpointError(f"{what} must be {annotation}, and is {type(value).__name__}")
    if isinstance(value, int | float) and not 0 <= value <= _LARGEST:
        raise CheckpointError(f"{what} is {value}, which no run has written")
