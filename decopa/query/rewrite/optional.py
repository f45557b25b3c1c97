"""OPT(P): a part that may be there or not, as the alternatives that it stands for.

SEQ(A a, OPT(B b), C c) is OR(SEQ(A a, B b, C c), SEQ(A a, C c)): a match with B and the match without it are both
found. A condition that names an absent event is left out of that alternative.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from decopa.errors import QueryError
from decopa.query.pattern import Kleene, Not, Or, Pattern


@dataclass(frozen=True, slots=True)
class Optional:
    """A child of SEQ or AND that may be missing."""

    child: Pattern

    def __post_init__(self) -> None:
        if isinstance(self.child, Not):
            raise QueryError(f"OPT({self.child}): a NOT that may be missing asks for nothing; leave it out")

    def __str__(self) -> str:
        return f"OPT({self.child})"


def expanded(build: Callable[[tuple[Pattern, ...]], Pattern], children: Sequence[Pattern | Optional]) -> Pattern:
    """What `build` makes of the children, or the alternatives with and without each optional one."""
    choices = [((one.child,), ()) if isinstance(one, Optional) else ((one,),) for one in children]
    if all(len(choice) == 1 for choice in choices):
        return build(tuple(child for child in children if not isinstance(child, Optional)))
    found = [tuple(itertools.chain.from_iterable(picked)) for picked in itertools.product(*choices)]
    positive = [picked for picked in found if any(not isinstance(child, Not) for child in picked)]
    if len(positive) < len(found):
        raise QueryError("every event of a SEQ or AND is optional; at least one must happen, so take one out of OPT")
    built = [build(picked) if len(picked) > 1 or isinstance(picked[0], Kleene | Not) else picked[0] for picked in found]
    return Or(tuple(built))
