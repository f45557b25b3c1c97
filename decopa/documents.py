"""The one reader of JSON documents: plans, statistics, capacities, manifests, points of scaling tests.

A document is parsed, its format and version are checked, and its fields are read with errors that name the place.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Any, NoReturn, TypeVar

from decopa.errors import DecoPaError, did_you_mean

Record = TypeVar("Record")
_KINDS = {
    int: "a whole number", float: "a number", str: "a text", list: "a list", dict: "an object", bool: "true or false",
}  # fmt: skip
#: How the fields of a record are annotated, and what JSON has for them.
_ANNOTATIONS: dict[str, tuple[type, ...]] = {
    "str": (str,),
    "int": (int,),
    "float": (int, float),
    "bool": (bool,),
    "tuple": (tuple,),
    "list": (list,),
    "Mapping": (dict,),
    "None": (type(None),),
}


@dataclass(frozen=True, slots=True)
class Document:
    """An object of a JSON document; `where` is its place in messages, `error` the class of the errors it raises."""

    fields: Mapping[str, Any]
    where: str
    error: type[DecoPaError]

    def __contains__(self, key: str) -> bool:
        return key in self.fields

    def check_fields(self, required: Collection[str], optional: Collection[str] = ()) -> None:
        """Refuses missing and unknown fields."""
        for key in required:
            if key not in self.fields:
                self.fail(f"'{key}' is missing")
        for key in self.fields:
            if key not in required and key not in optional:
                self.fail(f"unknown field '{key}'{did_you_mean(key, [*required, *optional])}")

    def value(self, key: str, kind: type) -> Any:
        """A field that must be there, of a kind of JSON: int, str, bool, list or dict."""
        if key not in self.fields:
            self.fail(f"'{key}' is missing")
        value = self.fields[key]
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            self.fail(f"'{key}' must be {_KINDS[kind]}, got {kind_of(value)}")
        return value

    def number(self, key: str) -> float:
        if key not in self.fields:
            self.fail(f"'{key}' is missing")
        value = self.fields[key]
        if isinstance(value, bool) or not isinstance(value, int | float):
            self.fail(f"'{key}' must be a number, got {kind_of(value)}")
        try:
            return float(value)
        except OverflowError:
            self.fail(f"'{key}' is too large a number")

    def numbers(self, key: str, *, optional: bool = False) -> dict[str, float]:
        """A field that maps names to numbers; one that is optional is empty if it is not there."""
        if optional and key not in self.fields:
            return {}
        inner = Document(self.value(key, dict), f"{self.where}: {key}", self.error)
        return {name: inner.number(name) for name in inner.fields}

    def texts(self, key: str, *, optional: bool = False) -> tuple[str, ...]:
        """A field that lists texts; one that is optional is empty if it is not there."""
        values = [] if optional and key not in self.fields else self.value(key, list)
        if not all(isinstance(value, str) for value in values):
            self.fail(f"'{key}' must be a list of texts")
        return tuple(values)

    def objects(self, key: str, *, optional: bool = False) -> list[Document]:
        """A field that lists objects, each with its place; one that is optional is empty if it is not there."""
        values = [] if optional and key not in self.fields else self.value(key, list)
        return [as_document(value, f"{self.where}: {key}[{at}]", self.error) for at, value in enumerate(values)]

    def fail(self, problem: str) -> NoReturn:
        raise self.error(f"{self.where}: {problem}")


def read_json(content: str | bytes, *, name: str, error: type[DecoPaError]) -> Any:
    """What the text holds, in which no object has a field twice."""

    def without_repeats(items: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(items)
        if len(found) < len(items):
            keys = [key for key, _ in items]
            raise error(f"{name}: '{next(key for key in keys if keys.count(key) > 1)}' is given twice; keep one")
        return found

    try:
        return json.loads(content, object_pairs_hook=without_repeats)
    except (ValueError, RecursionError) as err:
        raise error(f"{name} is not JSON: {err}") from None


def read_document(
    content: str | bytes,
    *,
    format: str,
    version: int | tuple[int, ...],
    name: str,
    error: type[DecoPaError],
    remedy: str,
) -> Document:
    """The object in the text, if it is of this format and of a version that is known; `remedy` says how to get a good
    one."""
    found = read_json(content, name=name, error=error)
    if not isinstance(found, dict) or found.get("format") != format:
        raise error(f'{name} is of another kind: it has no "format": "{format}"; {remedy}')
    known = version if isinstance(version, tuple) else (version,)
    if found.get("version") not in known or isinstance(found.get("version"), bool):
        reads = " and ".join(map(str, known))
        raise error(f"{name} has version {found.get('version')!r}, this decopa reads version {reads}; {remedy}")
    return Document(found, name, error)


def as_document(value: Any, where: str, error: type[DecoPaError]) -> Document:
    """A value that must be an object."""
    if not isinstance(value, dict):
        raise error(f"{where}: must be an object, got {kind_of(value)}")
    return Document(value, where, error)


def record_of(kind: type[Record], document: Document, *, largest: float | None = None) -> Record:
    """The dataclass made of an object, which must have its fields, of their kinds, and no others.

    With `largest`, numbers must lie between 0 and it.
    """
    known = {one.name: one for one in fields(kind)}  # type: ignore[arg-type]
    needed = [name for name, one in known.items() if one.default is MISSING and one.default_factory is MISSING]
    document.check_fields(needed, known)
    for name, value in document.fields.items():
        annotation = str(known[name].type)  # as in 'float | None'; of what is in a mapping or a list nothing is said
        kinds = tuple(one for part in annotation.split(" | ") for one in _ANNOTATIONS[part.partition("[")[0]])
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            document.fail(f"'{name}' must be {annotation}, got {kind_of(value)}")
        if largest is not None and isinstance(value, int | float) and not 0 <= value <= largest:
            document.fail(f"'{name}' is {value}, which no run has written")
    return kind(**document.fields)


def kind_of(value: Any) -> str:
    return "null" if value is None else _KINDS.get(type(value), type(value).__name__)
