"""JSON documents of the cost model: parsed, their kind and version checked, their fields read with clear errors."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any, NoReturn

from decopa.errors import StatisticsError, did_you_mean

_KINDS = {
    int: "a whole number", float: "a number", str: "a text", list: "a list", dict: "an object", bool: "true or false",
}  # fmt: skip


def read_document(text: str, *, format: str, version: int, name: str, command: str) -> dict[str, Any]:
    """The object in the text, if it is of this format and version; `command` is what makes a good one."""
    try:
        document = json.loads(text, object_pairs_hook=lambda items: _without_repeats(items, name))
    except (ValueError, RecursionError) as err:
        raise StatisticsError(f"{name} is not JSON: {err}") from None
    if not isinstance(document, dict) or document.get("format") != format:
        raise StatisticsError(f'{name} is of another kind: it has no "format": "{format}"; run `{command}`')
    if document.get("version") != version:
        raise StatisticsError(
            f"{name} has version {document.get('version')!r}, this decopa reads version {version}; run `{command}`"
        )
    return document


def check_fields(item: Mapping[str, Any], required: Collection[str], optional: Collection[str], where: str) -> None:
    """Refuses missing and unknown fields."""
    for key in required:
        if key not in item:
            fail(where, f"'{key}' is missing")
    for key in item:
        if key not in required and key not in optional:
            fail(where, f"unknown field '{key}'{did_you_mean(key, [*required, *optional])}")


def value_of_kind(item: Mapping[str, Any], key: str, kind: type, where: str) -> Any:
    value = item[key]
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        fail(where, f"'{key}' must be {_KINDS[kind]}, got {kind_of(value)}")
    return value


def number(item: Mapping[str, Any], key: str, where: str) -> float:
    value = item[key]
    if isinstance(value, bool) or not isinstance(value, int | float):
        fail(where, f"'{key}' must be a number, got {kind_of(value)}")
    try:
        return float(value)
    except OverflowError:
        fail(where, f"'{key}' is too large a number")


def numbers(item: Mapping[str, Any], key: str, where: str) -> dict[str, float]:
    """A field that maps names to numbers; empty if it is not there."""
    values: dict[str, Any] = value_of_kind(item, key, dict, where) if key in item else {}
    return {name: number(values, name, f"{where}: {key}") for name in values}


def texts(item: Mapping[str, Any], key: str, where: str) -> tuple[str, ...]:
    """A field that lists texts; empty if it is not there."""
    values = value_of_kind(item, key, list, where) if key in item else []
    if not all(isinstance(value, str) for value in values):
        fail(where, f"'{key}' must be a list of texts")
    return tuple(values)


def kind_of(value: Any) -> str:
    return "null" if value is None else _KINDS.get(type(value), type(value).__name__)


def fail(where: str, problem: str) -> NoReturn:
    raise StatisticsError(f"{where}: {problem}")


def _without_repeats(items: list[tuple[str, Any]], name: str) -> dict[str, Any]:
    found = dict(items)
    if len(found) < len(items):
        keys = [key for key, _ in items]
        fail(name, f"'{next(key for key in keys if keys.count(key) > 1)}' is given twice; keep one")
    return found
