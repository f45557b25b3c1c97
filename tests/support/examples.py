"""How many random cases a property tries."""

from __future__ import annotations

import os


def examples(usual: int) -> int:
    """`usual` cases, the same ones in every run; with DECOPA_EXAMPLES=n, n times as many, drawn anew each time."""
    return usual * int(os.environ.get("DECOPA_EXAMPLES", "1"))
