"""How many random cases a property tries."""

from __future__ import annotations

import os


def examples(usual: int) -> int:
    """`usual`, or that many times DECOPA_EXAMPLES: set it to 50 for a search over night."""
    return usual * int(os.environ.get("DECOPA_EXAMPLES", "1"))
