"""How far each micro-batch takes the stream, and what a restart needs to go on from there. No Spark.

Events up to a time, `handed_us`, are handed to the plan, in time order; later ones are held back, since earlier ones
may still arrive. After a micro-batch exactly those matches are out that are certain at that time. A restart plays the
events of the last windows again up to the same time, drops the matches of that replay, which are the ones that were
published, and goes on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from decopa.planning.plan import Plan


def handed_after(handed_us: int | None, newest_us: int, allowed_us: int) -> int:
    """Up to where events are handed over once the newest one has arrived; never back."""
    reached = newest_us - allowed_us
    return reached if handed_us is None else max(handed_us, reached)


@dataclass(frozen=True, slots=True)
class Reach:
    """How far back the queries of a plan look: the window of each and how many NOTs lie inside each other in it.

    It is the same for every plan of these queries: a fragment that they share looks no further than they do.
    """

    windows_us: tuple[int, ...]
    nestings: tuple[int, ...]

    @classmethod
    def of(cls, plan: Plan) -> Reach:
        queries = plan.queries
        return cls(tuple(query.window_us for query in queries), tuple(query.nesting_of_not for query in queries))

    def finals_us(self, handed_us: int) -> Sequence[int]:
        """For each part that reports: no match that comes after `handed_us` ends before this.

        A NOT at the end of a SEQ holds a match for one window from its start; a NOT inside it holds what would block
        the match for one more.
        """
        return [handed_us - nesting * window for window, nesting in zip(self.windows_us, self.nestings, strict=True)]

    def kept_from_us(self, handed_us: int) -> int:
        """Events from here on rebuild what units hold, and every match that is not final.

        A match that is not final began at most a window before `finals_us`; what blocks it lies within a window of
        it, and what lifts that block within one more.
        """
        return min(
            handed_us - (2 * nesting + 1) * window
            for window, nesting in zip(self.windows_us, self.nestings, strict=True)
        )
