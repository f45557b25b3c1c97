"""Alarms: raised by violations in a row, as the thesis means it, and as its Algorithm 1 is printed."""

from __future__ import annotations

from dataclasses import dataclass, replace

from decopa.errors import StatisticsError


@dataclass(frozen=True, slots=True)
class Alarm:
    """Counts violations in a row; it is raised by the one that makes `patience` of them. A look without a violation
    sets the count back."""

    patience: int
    violations: int = 0

    def __post_init__(self) -> None:
        if self.patience < 1:
            raise StatisticsError(f"an alarm needs at least one violation, got a patience of {self.patience}")

    @property
    def raised(self) -> bool:
        return self.violations >= self.patience

    def after(self, *, violated: bool) -> Alarm:
        """The alarm after one more look."""
        return replace(self, violations=self.violations + 1 if violated else 0)


@dataclass(frozen=True, slots=True)
class PrintedAlarm:
    """Algorithm 1 to the letter: the first violation of a row only flips a flag, and nothing sets the count back.

    Here to show what the print does; nothing is decided by it.
    """

    patience: int
    violations: int = 0
    flagged: bool = False

    @property
    def raised(self) -> bool:
        return self.flagged and self.violations >= self.patience

    def after(self, *, violated: bool) -> PrintedAlarm:
        counted = self.violations + 1 if violated and self.flagged else self.violations
        return replace(self, violations=counted, flagged=violated)
