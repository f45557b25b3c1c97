"""Ways to damage texts, bytes and JSON documents, drawn from a random generator."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from random import Random
from typing import Any

#: Numbers at the edges of what 64 bits, doubles and calendars hold, as text.
NUMBERS = (
    "0", "-0", "1", "-1", "0.1", "1e308", "1e309", "-1e309", "5e-324", "2147483648", "9223372036854775807",
    "9223372036854775808", "-9223372036854775808", "-9223372036854775809", "18446744073709551616",
    "4611686018427387905", "1" * 400, "1e99999", "0x10", "1_000", "00", "1.", ".5", "NaN", "Infinity", "-inf",
)  # fmt: skip
TEXTS = (
    "", " ", "\x00", "a\nb", "'", '"', "../../etc/passwd", "/etc/passwd", "%s%n", "${x}", "é",
    "\u202e", "\U0001f600", "ﬀ", "A" * 5_000, "\ud800", "None", "null", "__class__", "-- x", ";", "\\", "\r\n",
)  # fmt: skip
_VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2**31, 2**63, -(2**63) - 1, 2**200, 0.0, -0.5, 1e308, 5e-324, float("nan"),
    float("inf"), [], {}, [[]], [None], {"": None}, {"a": {"b": []}},
)  # fmt: skip


def damaged_bytes(content: bytes, random: Random) -> bytes:
    """The bytes with one to four damages: bits flipped, pieces cut out, repeated, moved or overwritten."""
    damaged = bytearray(content)
    for _ in range(random.choice((1, 1, 1, 2, 4))):
        place = random.randrange(len(damaged) + 1)
        length = min(random.choice((1, 1, 2, 4, 8, 64, 4096)), len(damaged) - place)
        match random.randrange(7):
            case 0 if length:
                damaged[place] ^= 1 << random.randrange(8)
            case 1:
                del damaged[place:]
            case 2:
                del damaged[place : place + length]
            case 3:
                damaged[place:place] = damaged[place : place + length] * random.choice((1, 2, 100))
            case 4:
                damaged[place:place] = random.randbytes(random.choice((1, 4, 40)))
            case 5:
                # A length or an offset that says far too much.
                damaged[place : place + 8] = random.choice((b"\xff" * 4, b"\xff" * 8, b"\x00" * 8, b"\xff\xff\xff\x7f"))
            case _:
                other = random.randrange(len(damaged) + 1)
                damaged[place : place + length] = damaged[other : other + length]
    return bytes(damaged)


def damaged_text(text: str, random: Random, words: tuple[str, ...]) -> str:
    """The text with one to four damages; `words` are put in where something is put in."""
    for _ in range(random.choice((1, 1, 2, 4))):
        place = random.randrange(len(text) + 1)
        end = min(len(text), place + random.choice((0, 1, 1, 3, 12)))
        inserted = random.choice(("", random.choice(words), random.choice(NUMBERS), random.choice(TEXTS)))
        if random.random() < 0.05:
            inserted *= random.choice((50, 2_000))
        text = text[:place] + inserted + text[end:]
    return text


def damaged_document(document: Any, random: Random, change: Callable[[str], str] = lambda text: text) -> str:
    """A JSON document with one to three damages to its values or, at times, to its text; `change` damages strings."""
    document = copy.deepcopy(document)
    for _ in range(random.choice((1, 1, 2, 3))):
        document = _damaged_value(document, random, change)
    text = json.dumps(document, indent=random.choice((None, 2)))
    match random.randrange(12):
        case 0:
            return damaged_text(text, random, ("{", "}", "[", "]", ",", ":", '"', "null", "1e999"))
        case 1:
            return text[: random.randrange(len(text) + 1)]
        case 2:
            deep = random.choice((10, 1_000, 100_000))
            return random.choice(("[" * deep, '{"a":' * deep, text[:-2] + ',"z":' + "[" * deep))
        case 3:
            return text + random.choice((text, "x", "\x00"))
    return text


def _damaged_value(root: Any, random: Random, change: Callable[[str], str]) -> Any:
    places = list(_places(root))
    if not places or random.random() < 0.02:
        return copy.deepcopy(random.choice(_VALUES))
    holder, key = random.choice(places)
    match random.randrange(8):
        case 0 | 1:
            holder[key] = copy.deepcopy(random.choice(_VALUES))
        case 2:
            holder[key] = random.choice(TEXTS)
        case 3:
            del holder[key]
        case 4 if isinstance(holder, dict):
            holder[random.choice((*TEXTS, "extra"))] = holder.pop(key)
        case 4 | 5:
            other, place = random.choice(places)
            if place in other if isinstance(other, dict) else place < len(other):
                holder[key] = copy.deepcopy(other[place])
        case 6 if isinstance(holder, list):
            holder[key:key] = [copy.deepcopy(holder[key]) for _ in range(random.choice((1, 2, 300)))]
        case _:
            value = holder[key]
            if isinstance(value, str):
                holder[key] = change(value)
            elif isinstance(value, int | float):
                holder[key] = value + random.choice((-1, 1)) * random.choice((1, 0.5, 7, 1_000_000))
    return root


def _places(root: Any) -> list[tuple[Any, Any]]:
    """Every (holder, key) of a document."""
    found: list[tuple[Any, Any]] = []
    waiting = [root]
    while waiting:
        holder = waiting.pop()
        keys = list(holder) if isinstance(holder, dict) else range(len(holder)) if isinstance(holder, list) else ()
        found += [(holder, key) for key in keys]
        waiting += [holder[key] for key in keys]
    return found
