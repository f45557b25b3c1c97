"""Watch: looks at the counters of a run now and then, and says when they are no longer what they were.

Everything is compared with a reference that is measured after the last switch, not with what the plan was predicted to
do: a model may be off for good, and such an alarm would never end.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from costmodel.drift.alarm import Alarm
from costmodel.drift.deviation import Deviation, PerRow, per_row_deviation, rate_deviation
from costmodel.drift.overload import Overload, overload_of
from costmodel.drift.readings import OperatorKey, Reading, Stretch
from decopa.errors import StatisticsError

#: Stretches of so many looks are compared with the reference: short ones find large changes soon, long ones small ones.
SCALES = (1, 2, 4, 8, 16, 32, 64)
#: A reference ends after so many times its least length, however rare a type is.
_LONGEST_REFERENCE = 4
#: A new rate is told once it rests on so many events, or on half a window.
_LEAST_EVIDENCE = 16
#: Changes that are told one by one.
_SHOWN = 3
#: Looks over which a growing delay counts.
_DELAY_LOOKS = 4

#: What is watched: a type's rate, or something that an operator does per row.
StatisticName = tuple[str, OperatorKey | str]


@dataclass(frozen=True, slots=True)
class WatchRules:
    """When to become suspicious: a statistic outside of [1/ratio, ratio] of its reference, by at least `z` standard
    errors, in `patience` looks in a row. An overload (see `Overload`) counts at once.

    A reference takes at least a window, `reference_s` seconds of event time and `least_events` events of a type; a
    rare type gets four times as long at most.
    """

    ratio: float = 1.25
    z: float = 5.0
    patience: int = 2
    reference_s: float = 2.0
    least_events: int = 400
    busiest: float = 0.95
    growth: float = 0.02

    def __post_init__(self) -> None:
        if not self.ratio > 1:
            raise StatisticsError(f"a deviation counts from a ratio above 1 on, got {self.ratio:g}")
        if not self.z > 0 or not self.reference_s >= 0 or self.least_events < 1:
            raise StatisticsError("z and the events of a reference must be positive, and its seconds not negative")
        Alarm(self.patience)


@dataclass(frozen=True, slots=True)
class Finding:
    """One statistic that has changed, in words and numbers."""

    what: str
    deviation: Deviation

    def __str__(self) -> str:
        return f"{self.what} {self.deviation.before:.4g} -> {self.deviation.now:.4g}"


@dataclass(frozen=True)
class Suspicion:
    """What has changed, the largest change first; `rates` are events per window as counted since. An urgent one is an
    overload, which may come without any change."""

    at_s: float
    ts_us: int
    findings: tuple[Finding, ...]
    rates: Mapping[str, float]
    urgent: bool = False
    #: Event time per second of the reader's clock, over the last looks.
    speed: float = 0.0
    #: What has happened since the rates changed, or in the last looks if none did.
    since: Stretch | None = None
    #: What had happened before rates changed, under those that were usual then, if that is a window at least.
    before: Stretch | None = None
    #: Why it is asked, where no statistic has changed.
    note: str = ""
    #: Whether it is asked because of the load alone: no statistic has changed.
    of_load: bool = False

    def __str__(self) -> str:
        reasons = [*([self.note] if self.note else []), *map(str, self.findings[:_SHOWN])]
        if len(self.findings) > _SHOWN:
            reasons.append(f"{len(self.findings) - _SHOWN} more")
        return ", ".join(["a unit is overloaded", *reasons] if self.urgent else reasons)


@dataclass(frozen=True)
class _Reference:
    """Counts that later ones are held against; nothing from before its last look is."""

    last_look: int
    span: float = 0.0
    per_row: PerRow = field(default_factory=lambda: PerRow(0, 0, 0))


@dataclass(frozen=True, slots=True)
class _Changed:
    """A statistic that deviates."""

    name: StatisticName
    finding: Finding

    @property
    def event_type(self) -> str | None:
        """The type whose rate has changed, if it is that."""
        key = self.name[1]
        return key if isinstance(key, str) else None


class Watch:
    """Compares readings of one plan with its reference.

    `feeding` names the leaves under each operator. A plan that starts with empty stores is not `settled` until a window
    has passed: until then its operators find less than they will.
    """

    def __init__(
        self,
        window_us: int,
        feeding: Mapping[OperatorKey, tuple[OperatorKey, ...]],
        rules: WatchRules | None = None,
        *,
        settled: bool = False,
    ) -> None:
        self.rules = rules or WatchRules()
        self._window_us, self._feeding, self._settled = window_us, dict(feeding), settled
        self._least_us = max(window_us, round(self.rules.reference_s * 1e6))
        self._number = 0
        self._readings: deque[tuple[int, Reading]] = deque(maxlen=max(SCALES) + 1)
        self._begin: tuple[int, Reading] | None = None
        self._settled_begin: tuple[int, Reading] | None = None
        self._references: dict[StatisticName, _Reference] = {}
        self._alarms: dict[StatisticName, Alarm] = {}
        #: Types' rates that deviate at the last look, whether or not their alarms are raised.
        self._deviating: set[StatisticName] = set()

    @property
    def has_reference(self) -> bool:
        """Whether anything can be compared yet."""
        return bool(self._references)

    @property
    def recent(self) -> Stretch | None:
        """What happened in the last looks, at most `_DELAY_LOOKS` of them; None before there are two readings."""
        return self.within(_DELAY_LOOKS)

    def within(self, looks: int) -> Stretch | None:
        """What happened in the last so many looks, or in as many as there were."""
        if len(self._readings) < 2:
            return None
        return Stretch.between(self._readings[-min(len(self._readings), looks + 1)][1], self._readings[-1][1])

    @property
    def since_begin(self) -> Stretch | None:
        """What happened since the reference began."""
        if self._begin is None or len(self._readings) < 2:
            return None
        return Stretch.between(self._begin[1], self._readings[-1][1])

    def overload(self, looks: int = _DELAY_LOOKS) -> Overload | None:
        """How busy the busiest process was in the last looks, and by how much delays grew; None if nobody knows."""
        return overload_of([one for _, one in list(self._readings)[-looks - 1 :]])

    def rebase(self) -> None:
        """Measures a new reference from here on: what has changed is known, and the plan stays."""
        if self._readings:
            self._begin = self._readings[-1]
            self._settled_begin = self._begin if self._settled else None
        self._references.clear()
        self._alarms.clear()

    def look(self, reading: Reading) -> Suspicion | None:
        """Takes a reading; returns what has changed, if something has. Readings come in order of time."""
        self._number += 1
        self._readings.append((self._number, reading))
        self._begin = self._begin or self._readings[-1]
        self._settle(reading)
        found = self._changed()
        overload = self.overload()
        urgent = overload is not None and overload.exceeds(self.rules.busiest, self.rules.growth)
        self._extend_references(reading)
        changed = self._change_of(found)
        since = None if changed is None else Stretch.between(changed, reading)
        if not urgent and not (found and self._is_evident(found, since)):
            return None
        recent = self.recent
        speed = recent.speed if recent is not None else 0.0
        findings = tuple(one.finding for one in found)
        before = None if changed is None else self._until(changed)
        return Suspicion(reading.at_s, reading.ts_us, findings, self._rates(), urgent, speed, since or recent, before)

    def _settle(self, reading: Reading) -> None:
        """Operators are watched from the first look at which their stores are full."""
        assert self._begin is not None
        first = self._begin[1]
        self._settled = self._settled or reading.ts_us - first.ts_us >= self._window_us
        if self._settled and self._settled_begin is None:
            self._settled_begin = self._readings[-1]

    def _changed(self) -> list[_Changed]:
        """Statistics whose alarm is raised, with their largest deviation."""
        found, stretches = [], list(self._stretches())
        self._deviating = set()
        for name, reference in self._references.items():
            worst: Deviation | None = None
            for number, stretch in stretches:
                if number < reference.last_look:
                    break
                deviation = self._deviation(name, reference, stretch)
                exceeds = deviation.exceeds(self.rules.ratio, self.rules.z)
                if exceeds and (worst is None or abs(deviation.z) > abs(worst.z)):
                    worst = deviation
            if worst is not None and isinstance(name[1], str):
                self._deviating.add(name)
            alarm = self._alarms.get(name, Alarm(self.rules.patience)).after(violated=worst is not None)
            self._alarms[name] = alarm
            if worst is not None and alarm.raised:
                found.append(_Changed(name, Finding(_in_words(name), worst)))
        return sorted(found, key=lambda one: -abs(one.finding.deviation.z))

    def _stretches(self) -> Iterator[tuple[int, Stretch]]:
        """The last looks, at every scale: the number of the look they follow, and what happened."""
        latest = self._readings[-1][1]
        for scale in SCALES:
            if len(self._readings) > scale:
                number, earlier = self._readings[-1 - scale]
                if latest.ts_us > earlier.ts_us:
                    yield number, Stretch.between(earlier, latest)

    def _deviation(self, name: StatisticName, reference: _Reference, stretch: Stretch) -> Deviation:
        kind, key = name
        if isinstance(key, str):
            windows = stretch.windows(self._window_us)
            return rate_deviation(reference.per_row.count, reference.span, stretch.types.get(key, 0), windows)
        return per_row_deviation(reference.per_row, self._per_row(kind, key, stretch))

    def _per_row(self, kind: str, key: OperatorKey, stretch: Stretch) -> PerRow:
        counts = stretch.operators.get(key)
        if counts is None:
            return PerRow(0, 0, 0)
        rarest = min((stretch.leaves.get(leaf, 0) for leaf in self._feeding.get(key, ())), default=0)
        return PerRow(counts.emitted if kind == "matches" else counts.comparisons, counts.ingested, rarest)

    def _extend_references(self, reading: Reading) -> None:
        """Completes the references that are long enough, with this reading as their last."""
        assert self._begin is not None
        self._complete_rates(Stretch.between(self._begin[1], reading))
        if self._settled_begin is None:
            return
        stretch = Stretch.between(self._settled_begin[1], reading)
        if stretch.span_us < self._least_us:
            return
        for key in reading.operators:
            for kind in ("matches", "comparisons"):
                per_row = self._per_row(kind, key, stretch)
                late = stretch.span_us >= _LONGEST_REFERENCE * self._least_us
                if (kind, key) not in self._references and (per_row.rarest >= self.rules.least_events or late):
                    self._references[kind, key] = _Reference(self._number, per_row=per_row)

    def _complete_rates(self, stretch: Stretch) -> None:
        if stretch.span_us < self._least_us:
            return
        late = stretch.span_us >= _LONGEST_REFERENCE * self._least_us
        for event_type, count in stretch.types.items():
            if ("rate", event_type) not in self._references and (count >= self.rules.least_events or late):
                span = stretch.windows(self._window_us)
                self._references["rate", event_type] = _Reference(self._number, span, PerRow(count, 0, 0))

    def _until(self, changed: Reading) -> Stretch | None:
        """What happened from the first look with full stores on."""
        if self._settled_begin is None or changed.ts_us - self._settled_begin[1].ts_us < self._window_us:
            return None
        return Stretch.between(self._settled_begin[1], changed)

    def _change_of(self, found: list[_Changed]) -> Reading | None:
        """The last look before the rates changed: the one after which the most certain of them deviates most."""
        rates = [one for one in found if one.event_type is not None]
        if not rates:
            return None
        return self._last_usual(rates[0].name)

    def _last_usual(self, name: StatisticName) -> Reading | None:
        """The look after which a statistic deviates most."""
        reference, latest = self._references[name], self._readings[-1][1]
        after = [reading for number, reading in list(self._readings)[:-1] if number >= reference.last_look]
        return max(
            (reading for reading in after if reading.ts_us < latest.ts_us),
            key=lambda one: abs(self._deviation(name, reference, Stretch.between(one, latest)).z),
            default=None,
        )

    def _is_evident(self, found: list[_Changed], since: Stretch | None) -> bool:
        """Whether enough has happened since the change to tell what the rates are now, not only that they changed."""
        if since is None:
            return True
        counts = [since.types.get(one.event_type, 0) for one in found if one.event_type is not None]
        return min(counts) >= _LEAST_EVIDENCE or since.windows(self._window_us) >= 0.5

    def _rates(self) -> dict[str, float]:
        """Events per window: of what has changed since the change, of the rest as long as readings reach back."""
        latest = self._readings[-1][1]
        assert self._begin is not None
        begin = next(reading for number, reading in self._readings if number >= self._begin[0])
        shown = Stretch.between(begin, latest)
        if min(shown.types.values(), default=0) < _LEAST_EVIDENCE and shown.windows(self._window_us) < 0.5:
            # An overload is told at once, also where a new reference has just begun: with what came before, then.
            begin = next(one for _, one in self._readings if latest.ts_us - one.ts_us <= self._window_us // 2)
            shown = Stretch.between(begin, latest)
        rates = shown.rates(self._window_us)
        # Rates that change together are told together, also those whose alarm is not raised yet: a plan that goes by
        # some of them suits none.
        for name in self._deviating:
            usual = self._last_usual(name)
            if usual is not None and isinstance(name[1], str):
                rates[name[1]] = Stretch.between(usual, latest).rates(self._window_us)[name[1]]
        return rates


def _in_words(name: StatisticName) -> str:
    kind, key = name
    return f"rate of {key}" if isinstance(key, str) else f"{kind} per row of {key[1]}"
