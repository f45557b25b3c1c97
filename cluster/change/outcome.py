"""What a change of plan took, and what a run offers to those who change its plan, in one process and on Ray."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Protocol

from decopa.errors import DecoPaError
from decopa.planning.plan import Plan


class ChangeAbandoned(DecoPaError):
    """The change was not made; the run continues with the plan that it had."""


@dataclass(frozen=True, slots=True)
class Switched:
    """A change that was made, at a cut in the stream.

    `at_event` events lie before the cut, and `at_us` is the watermark of both plans there. `seeded` events were worked
    on again to build the new plan; none where it `carried` over what the units of the old one held. It took `warm_up_s`
    from the request to the cut. No event was fed for `pause_s`. The new plan had passed the cut in all its processes
    `stall_s` after it.
    """

    at_event: int
    at_us: int
    seeded: int
    warm_up_s: float = 0.0
    pause_s: float = 0.0
    stall_s: float = 0.0
    carried: bool = False


class Changeable(Protocol):
    """A run whose plan may be changed, from any thread."""

    @property
    def plan(self) -> Plan:
        """The plan that works on the stream now."""
        ...

    def change(self, plan: Plan, begin_us: Mapping[str, int] | None = None) -> Future[Switched]:
        """Asks for another plan. The result comes when it has taken over, or ChangeAbandoned if it could not.

        One change is made at a time, others wait. One whose result is cancelled before its cut is not made; from its
        cut on the result is running. `begin_us` says from when on a new part needs events, by its key; by default as
        far back as its query looks.
        """
        ...
