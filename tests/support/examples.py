"""How many random cases a property tries."""

from __future__ import annotations

import os


def examples(usual: int) -> int:
    """Half of `usual` cases, the same ones in every run; with DECOPA_EXAMPLES=n, n times `usual`, drawn anew each time.

    Cases that are the same every time show what a change breaks; it takes new ones to find what was always wrong.
    """
    factor = os.environ.get("DECOPA_EXAMPLES")
    return (usual + 1) // 2 if factor is None else usual * int(factor)
