"""The folder beside the repository that holds the worked examples of the papers; not part of a plain checkout."""

from __future__ import annotations

import importlib.util
import json
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

SHARED = Path(__file__).resolve().parents[2].parent / "shared"
GOLDEN = SHARED / "golden"
needs_golden = pytest.mark.skipif(not GOLDEN.is_dir(), reason=f"no {GOLDEN}: the worked examples are not here")


@cache
def golden_oracle() -> ModuleType:
    """The papers' referee, as a module."""
    spec = importlib.util.spec_from_file_location("golden_oracle", GOLDEN / "oracle.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def semantics_cases() -> list[dict[str, Any]]:
    """Tiny streams with a query and its exact matches; none where the folder is missing."""
    return _load("semantics.json", "cases")


def decopa_entries(function: str) -> list[dict[str, Any]]:
    """The worked examples of the DecoPa paper that the given formula recomputes."""
    return [entry for entry in _load("decopa.json", "entries") if entry.get("function") == function]


def decopa_entry(entry_id: str) -> dict[str, Any]:
    return next(entry for entry in _load("decopa.json", "entries") if entry["id"] == entry_id)


def nextcep_entries() -> list[dict[str, Any]]:
    """The worked examples of the NEXT CEP paper."""
    return _load("nextcep.json", "entries")


def adaptivity_entries(function: str | None = None) -> list[dict[str, Any]]:
    """The worked examples of the thesis on adaptivity; those that the given formula recomputes."""
    entries = _load("adaptivity.json", "entries")
    return [entry for entry in entries if function is None or entry.get("function") == function]


def _load(name: str, key: str) -> list[dict[str, Any]]:
    path = GOLDEN / name
    if not path.is_file():
        return []
    entries: list[dict[str, Any]] = json.loads(path.read_text())[key]
    return entries
