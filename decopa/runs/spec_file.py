"""RunSpec to and from JSON, field by field as the classes declare them.

    {"format": "decopa-run", "version": 1, "queries": "PATTERN ...", "spec": {"trace": {...}, "planning": {...}, ...}}

Fields at their default are left out, so that a document says what somebody chose. Plans and statistics are documents
of their own, as texts. What a document holds is checked against the declared kinds; nothing in it names code.
"""

from __future__ import annotations

import dataclasses
import math
import types
from collections.abc import Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from cluster.checkpoint.store import RUN_FILE, CheckpointStore
from costmodel import stats_file
from costmodel.statistics import Statistics
from decopa.documents import read_document
from decopa.errors import CheckpointError, DecoPaError
from decopa.language.text.parser import parse_workload
from decopa.planning.plan import Plan
from decopa.query.query import Query
from decopa.runs.spec import RunSpec

FORMAT = "decopa-run"
VERSION = 1
#: Counts, sizes, seconds and places in a stream stay below this.
_LARGEST = 2**62


def to_document(spec: RunSpec, queries: Sequence[Query]) -> dict[str, Any]:
    """The run as plain JSON values."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "queries": ";\n".join(map(str, queries)),
        "spec": _encoded(spec),
    }


def from_json(content: str | bytes, where: str) -> tuple[RunSpec, tuple[Query, ...]]:
    """The run that a document of `to_document` describes; `where` is how messages call it."""
    remedy = "finish the run with the decopa that began it, or start anew"
    document = read_document(content, format=FORMAT, version=VERSION, name=where, error=CheckpointError, remedy=remedy)
    document.check_fields(("format", "version", "queries", "spec"))
    try:
        spec = _decoded(RunSpec, document.value("spec", dict), f"{where}: spec")
        queries = parse_workload(document.value("queries", str))
    except CheckpointError:
        raise
    except DecoPaError as err:
        raise CheckpointError(f"{where} is damaged: {err}") from err
    assert isinstance(spec, RunSpec)
    return spec, queries


def read_run(store: CheckpointStore) -> tuple[RunSpec, tuple[Query, ...]]:
    """The run that is kept with checkpoints."""
    where = f"{store.location}/{RUN_FILE}"
    spec, queries = from_json(store.read_run(), where)
    if spec.checkpoints is None or spec.output is None or spec.trace.path is None:
        raise CheckpointError(f"{where} is damaged: it names no trace, no output or no checkpoints")
    return spec, queries


def _encoded(value: Any) -> Any:
    if isinstance(value, Plan):
        return value.to_json()
    if isinstance(value, Statistics):
        return stats_file.to_json(value)
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Path):
        return str(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {
            one.name: _encoded(getattr(value, one.name))
            for one in dataclasses.fields(value)
            if getattr(value, one.name) != _default(one)
        }
    if isinstance(value, Mapping):
        return {str(key): _encoded(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_encoded(item) for item in value]
    return value


def _default(one: dataclasses.Field[Any]) -> Any:
    if one.default is not dataclasses.MISSING:
        return one.default
    return one.default_factory() if one.default_factory is not dataclasses.MISSING else dataclasses.MISSING


def _decoded(kind: Any, value: Any, where: str) -> Any:
    """The value, if it is of the declared kind; unions take the first of their kinds that fits."""
    origin = get_origin(kind)
    if origin in (Union, types.UnionType):
        return _one_of(get_args(kind), value, where)
    if origin is Literal:
        return _if(value in get_args(kind), value, where, " or ".join(map(repr, get_args(kind))))
    if origin is not None and issubclass(origin, Mapping):
        _if(isinstance(value, dict), value, where, "an object")
        return {key: _decoded(get_args(kind)[1], item, f"{where}.{key}") for key, item in value.items()}
    if origin is not None and issubclass(origin, Sequence):
        _if(isinstance(value, list), value, where, "a list")
        return tuple(_decoded(get_args(kind)[0], item, f"{where}[{place}]") for place, item in enumerate(value))
    if kind is Plan:
        return Plan.from_json(_if(isinstance(value, str), value, where, "a plan"))
    if kind is Statistics:
        return stats_file.from_json(_if(isinstance(value, str), value, where, "statistics"), where)
    if dataclasses.is_dataclass(kind):
        return _record(kind, value, where)
    return _scalar(kind, value, where)


def _record(kind: Any, value: Any, where: str) -> Any:
    _if(isinstance(value, dict), value, where, "an object")
    hints = get_type_hints(kind)
    known = {one.name: one for one in dataclasses.fields(kind)}
    for name in value:
        _if(name in known, value, f"{where}.{name}", "a field that this decopa knows")
    for name, one in known.items():
        _if(name in value or _default(one) is not dataclasses.MISSING, value, f"{where}.{name}", "there")
    return kind(**{name: _decoded(hints[name], item, f"{where}.{name}") for name, item in value.items()})


def _scalar(kind: Any, value: Any, where: str) -> Any:
    if isinstance(kind, type) and issubclass(kind, Enum):
        _if(value in [one.value for one in kind], value, where, " or ".join(repr(one.value) for one in kind))
        return kind(value)
    if kind is Path:
        return Path(_if(isinstance(value, str), value, where, "a path"))
    if kind in (int, float):
        fits = isinstance(value, int if kind is int else int | float) and not isinstance(value, bool)
        return _if(fits and math.isfinite(value) and abs(value) <= _LARGEST, value, where, "a number in range")
    return _if(isinstance(value, kind), value, where, kind.__name__)


def _one_of(kinds: Sequence[Any], value: Any, where: str) -> Any:
    if value is None and type(None) in kinds:
        return None
    failure: DecoPaError | None = None
    for kind in kinds:
        if kind is not type(None):
            try:
                return _decoded(kind, value, where)
            except DecoPaError as err:
                failure = failure or err
    assert failure is not None
    raise failure


def _if(fits: bool, value: Any, where: str, what: str) -> Any:
    if not fits:
        raise CheckpointError(f"{where} must be {what}, got {type(value).__name__}")
    return value
