"""Texts of command-line arguments -> values; what does not fit says so in one line."""

from __future__ import annotations

import argparse
from pathlib import Path

from decopa.choices import COLUMN_KINDS, SOURCE_KINDS
from decopa.query.names import duration_us


def trace(text: str) -> Path | str:
    """A path, or the address of a stream as it is: kafka://host:9092/topic."""
    kind, separator, _ = text.partition("://")
    return text if separator and kind in SOURCE_KINDS else Path(text)


def count(text: str) -> int:
    """A whole number of 1 or more; 1_000_000 and 1e6 are fine."""
    try:
        value = float(text) if "e" in text.lower() else int(text)
        if value >= 1 and value == int(value):
            return int(value)
    except (ValueError, OverflowError):
        pass
    raise argparse.ArgumentTypeError(f"'{text}' is not a whole number of 1 or more")


def units(text: str) -> int | tuple[int, int]:
    """A number of units, or the fewest and the most: 2:8."""
    fewest, separator, most = text.partition(":")
    if not separator:
        return count(text)
    found = count(fewest), count(most)
    if found[0] > found[1]:
        raise argparse.ArgumentTypeError(
            f"'{text}' names no number of units; write the smaller number first, as in {most}:{fewest}"
        )
    return found


def positive(text: str) -> float:
    """A positive number; 1e6 is fine."""
    try:
        value = float(text)
        if 0 < value < float("inf"):
            return value
    except ValueError:
        pass
    raise argparse.ArgumentTypeError(f"'{text}' is not a positive number")


def duration(text: str) -> int:
    """`500 ms` -> microseconds."""
    found = duration_us(text)
    if found is None:
        raise argparse.ArgumentTypeError(f"'{text}' is not a time like '500 ms'; units are us, ms, s, min, h, d")
    return found


def pair(text: str) -> tuple[str, str, float]:
    """`A,B=0.05` -> ('A', 'B', 0.05)"""
    types, _, share = text.partition("=")
    names = [name.strip() for name in types.split(",")]
    try:
        first, second = names
        return first, second, float(share)
    except ValueError:
        raise argparse.ArgumentTypeError(f"'{text}' is not like A,B=0.05") from None


def pin(text: str) -> tuple[str, str]:
    """`o5=10.0.0.7` -> ('o5', '10.0.0.7')"""
    name, _, node = (part.strip() for part in text.rpartition("="))
    if not (name and node):
        raise argparse.ArgumentTypeError(f"'{text}' is not like o5=10.0.0.7")
    return name, node


def kinds(text: str) -> dict[str, str]:
    """`x=float,s=string` -> {'x': 'float', 's': 'string'}"""
    found = {}
    for item in text.split(","):
        name, _, kind = (part.strip() for part in item.rpartition("="))
        if not name or kind not in COLUMN_KINDS:
            raise argparse.ArgumentTypeError(f"'{item}' is not like x=float; kinds are {', '.join(COLUMN_KINDS)}")
        found[name] = kind
    return found
