"""Guard: refuses a run that is predicted never to end, and watches one that is going for what nobody predicted.

Before a run, predictions are held against its limits. While it is going, an operator that has done many times what
was predicted for the whole run is reported at once, and limits on comparisons and time end the run; every message
names the operator, what was predicted and what it has done so far.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from actors.group import Limits
from actors.reports import OperatorReport
from costmodel.capacity import Capacity
from costmodel.statistics import Statistics
from decopa.choices import DEFAULT_BATCH_SIZE, REFUSED_HOURS
from decopa.errors import LimitError
from decopa.planning.plan import Plan
from decopa.planning.predict import Prediction, predict
from decopa.planning.roles import Rule

#: A prediction must exceed a limit by this factor to be believed: estimates are within about 2.
_TRUSTED = 2.0
#: Comparisons below this are no reason to worry, whatever was predicted.
_WORTH_TELLING = 20_000_000
#: Factors beyond prediction at which an operator is reported, once each.
_FACTORS = (10, 100, 1_000, 10_000, 1_000_000)
_LOOK_EVERY_S = 0.5
_WHAT_TO_DO = "measure the trace again (`decopa stats`), try --strategy left-deep, a shorter window or a condition more"


@dataclass
class Guard:
    """Watches one run of a plan; `expected` has the predictions for each part, none where nothing is known."""

    plan: Plan
    limits: Limits
    expected: Sequence[Mapping[str, Prediction] | None]
    warn: Callable[[str], None] = lambda line: None
    clock: Callable[[], float] = time.monotonic
    warnings: list[str] = field(default_factory=list)
    _started_s: float | None = None
    _next_s: float = 0.0
    _told: dict[tuple[int, str], int] = field(default_factory=dict)
    _compared_before: int = 0

    @classmethod
    def of(
        cls,
        plan: Plan,
        statistics: Sequence[Statistics | None],
        span_us: int,
        limits: Limits,
        warn: Callable[[str], None] = lambda line: None,
    ) -> Guard:
        """The guard of a run over `span_us` of event time; `statistics` are those of each part, if known."""
        known = zip(plan.parts, statistics, strict=True)
        expected = [None if one is None or not span_us else predict(part, one, span_us) for part, one in known]
        return cls(plan, limits, expected, warn)

    def check(self, events: int | None, capacity: Capacity, batch_size: int | None = None) -> None:
        """LimitError if the plan is predicted to exceed a limit or to take hours; says by how much."""
        batches = max(1.0, (events or 0) / (batch_size or DEFAULT_BATCH_SIZE))
        for part, expected in zip(self.plan.parts, self.expected, strict=True):
            if expected is None:
                continue
            seconds = 0.0
            per_second = capacity.per_second_at(part.query.window_us)
            for operator in part.operators:
                totals = expected[operator.name]
                seconds += per_second.busy(totals.ingested.value, totals.comparisons.value, totals.emitted.value)
                forms = operator.inputs and part.rule(operator) in (Rule.KLEENE_UNARY, Rule.KLEENE_BINARY)
                most = self.limits.max_groups * batches
                if forms and totals.emitted.value > _TRUSTED * most:
                    raise LimitError(
                        f"operator {part.text(operator)} is predicted to form {totals.emitted.value:.3g} groups, more "
                        f"than the limit of {most:.3g} (--max-groups, Limits.max_groups) by far; use a shorter window "
                        "or a condition more, or run it all the same with --force"
                    )
            found = expected[part.root.name].emitted.value
            if found > _TRUSTED * self.limits.max_matches:
                raise LimitError(
                    f"{part.query.pattern} is predicted to have {found:.3g} matches, more than the limit of "
                    f"{self.limits.max_matches:,} (--max-matches, Limits.max_matches) by far; use a shorter window or "
                    "a condition more, raise the limit, or run it all the same with --force"
                )
            allowed_s = self.limits.max_seconds or REFUSED_HOURS * 3600
            if seconds > _TRUSTED * allowed_s:
                worst = max(part.operators, key=lambda one: expected[one.name].comparisons.value)
                raise LimitError(
                    f"{part.query.pattern} is predicted to keep one processor busy for {seconds / 3600:.3g} h, mostly "
                    f"operator {part.text(worst)} with {expected[worst.name].comparisons.value:.3g} comparisons; "
                    f"{_WHAT_TO_DO}, or run it all the same with --force"
                )

    @property
    def due(self) -> bool:
        """Whether it is time to look."""
        now = self.clock()
        if self._started_s is None:
            self._started_s = now
        return now >= self._next_s

    def look(self, reports: Sequence[Sequence[OperatorReport]]) -> None:
        """Looks at what the operators of each part have done so far."""
        now = self.clock()
        self._started_s = now if self._started_s is None else self._started_s
        self._next_s = now + _LOOK_EVERY_S
        for at, mine in enumerate(reports):
            for report in mine:
                self._compare(at, report)
        done = [(report.comparisons, at, report) for at, mine in enumerate(reports) for report in mine]
        total = self._compared_before + sum(count for count, _, _ in done)
        seconds = now - self._started_s
        if not done:
            return
        _, at, worst = max(done, key=lambda one: one[0])
        if self.limits.max_comparisons is not None and total > self.limits.max_comparisons:
            raise LimitError(
                f"the run has made {total:,} comparisons, more than the limit of {self.limits.max_comparisons:,} "
                f"(--max-comparisons, Limits.max_comparisons); {self._state(at, worst)}; {_WHAT_TO_DO}"
            )
        if self.limits.max_seconds is not None and seconds > self.limits.max_seconds:
            raise LimitError(
                f"the run has taken {seconds:.1f} s, more than the limit of {self.limits.max_seconds:g} s "
                f"(--max-seconds, Limits.max_seconds); {self._state(at, worst)}; {_WHAT_TO_DO}"
            )

    def plan_changed(self, plan: Plan, earlier: Sequence[OperatorReport]) -> None:
        """Another plan runs, for which nothing is predicted; limits count on."""
        self.plan, self.expected = plan, [None] * len(plan.parts)
        self._told.clear()
        self._compared_before = sum(report.comparisons for report in earlier)

    def _compare(self, at: int, report: OperatorReport) -> None:
        expected = self.expected[at]
        if expected is None or report.comparisons < _WORTH_TELLING:
            return
        predicted = max(1.0, expected[report.name].comparisons.value)
        reached = [factor for factor in _FACTORS if report.comparisons >= factor * predicted]
        if reached and reached[-1] > self._told.get((at, report.name), 0):
            self._told[at, report.name] = reached[-1]
            line = f"{self._state(at, report)}, {reached[-1]:,} times as many and still going; {_WHAT_TO_DO}"
            self.warnings.append(line)
            self.warn(line)

    def _state(self, at: int, report: OperatorReport) -> str:
        expected = self.expected[at]
        predicted = "" if expected is None else f", {expected[report.name].comparisons.value:.3g} predicted"
        return f"operator {report.name} {report.sub_query} has made {report.comparisons:,} comparisons{predicted}"
