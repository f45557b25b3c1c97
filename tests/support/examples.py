"""How many random cases a property tries."""

from __future__ import annotations

import os

MANY = 80


def examples(usual: int) -> int:
    """`usual` cases, a third of them where they are many, the same ones in every run; with DECOPA_EXAMPLES=n, n times
    `usual`, drawn anew each time.

    Cases that are the same every time show what a change breaks; it takes new ones to find what was always wrong.
    """
    factor = os.environ.get("DECOPA_EXAMPLES")
    if factor is None:
        return usual if usual < MANY else usual // 3
    return usual * int(factor)
