"""Watch: who learns how a run goes while it goes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cluster.checkpoint.recovery import Recovery
    from cluster.deploy.recorder import Recorder
    from decopa.runs.streams.durable_rules import DurableRules

#: Called with the numbers of events and matches so far.
Progress = Callable[[int, int], None]


def _ignore(text: str) -> None:
    pass


def _no_rules(rules: DurableRules) -> None:
    pass


@dataclass(frozen=True)
class Watch:
    """`phase` gets what is being done before events flow, `dashboard` the address of Ray's dashboard once it is known;
    `recorder` notes how far the run is at some moments, for its report; `recovered` is called whenever a run with
    checkpoints has continued after a loss; `warn` gets operators that do many times what was predicted, while they do
    so."""

    progress: Progress | None = None
    phase: Callable[[str], None] = _ignore
    dashboard: Callable[[str], None] = _ignore
    recorder: Recorder | None = None
    recovered: Callable[[Recovery], None] | None = None
    #: A run with checkpoints ends with one once this is set.
    stop: threading.Event | None = None
    warn: Callable[[str], None] = _ignore
    #: Gets a line when the plan, or a rule, has been changed.
    changed: Callable[[str], None] = _ignore
    #: Gets those who change the rules of a run with checkpoints, if they come and go, once the run is about to begin.
    ruled: Callable[[DurableRules], None] = _no_rules
