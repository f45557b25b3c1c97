"""What clouds say when they do not start a machine, and whether waiting would help. Imports nothing of Ray."""

from __future__ import annotations

import re

#: Limits of the account, no such machine left, no right to start one: waiting mends none of them.
_FINAL = re.compile(r"LimitExceeded|QuotaExceeded|QUOTA_EXCEEDED|quota|Insufficient\w*Capacity|UnauthorizedOperation")
REMEDY = "ask the cloud for a higher quota, use another type of machine, or fewer machines"


def is_final(said: str) -> bool:
    """Whether the cloud would say the same again."""
    return _FINAL.search(said) is not None
