"""What actors begin with: what others held, or what they only build for another plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from shuffler.routing.feeder import FeederState


@dataclass(frozen=True)
class Restored:
    """What processes held at a checkpoint, by name: units as bytes, shufflers as their feeders' states."""

    units: Mapping[str, bytes]
    shufflers: Mapping[str, tuple[FeederState, ...]]


@dataclass(frozen=True, slots=True)
class Building:
    """How actors begin that build another plan, by keys of its parts.

    Until the first barrier those in `absorbing` take their events for such as another plan has found all matches of.
    Those in `silent` get no events: what they hold comes later, from elsewhere, and until then nothing is stored.
    """

    absorbing: frozenset[str] = frozenset()
    silent: frozenset[str] = frozenset()
