"""What a change of plan asks of a run on Ray: states of the running plan, and the cut between two plans."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any, Protocol

from cluster.checkpoint.coordinator import Side
from cluster.checkpoint.restoring import Snapshot
from cluster.deploy.deployment import Deployment
from cluster.session import StreamPlace
from decopa.planning.plan import Plan


class Telling(Protocol):
    """Who can have the running plan tell what its processes hold."""

    def prepare_states(self, deployment: Deployment) -> None:
        """Called before `states`, by any thread; waits for the actors of the running plan."""
        ...

    def states(self, place: StreamPlace) -> Future[Snapshot]:
        """What the processes of the running plan hold here, between two blocks; waits for nobody."""
        ...


class Cutting(Telling, Protocol):
    """How plans are cut, with checkpoints or without."""

    def check(self, old: Plan, new: Plan) -> None:
        """Raises if one plan cannot follow the other here."""
        ...

    #: Whether a new plan waits for a cut, or reads what was stored: nothing that would disturb it should begin.
    wanted: bool
    #: Whether somebody waits for the next checkpoint.
    urgent: bool

    @property
    def can_cut(self) -> bool:
        """Whether a cut may be made now."""
        ...

    @property
    def obstacle(self) -> str | None:
        """Why no cut can be made for the time being, if that is so."""
        ...

    def look(self) -> None:
        """Called now and then: does what is due."""
        ...

    def cut(self, place: StreamPlace, watermark_us: int, new: Side) -> list[Any]:
        """Cuts both sides here; returns calls that are done when all processes of the new side have passed the cut."""
        ...

    def is_done_with(self, deployment: Deployment) -> bool:
        """Whether everything before the cut has been taken from these actors."""
        ...

    @property
    def is_settled(self) -> bool:
        """Whether no cut is under way."""
        ...
