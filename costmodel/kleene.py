"""How many groups a Kleene position can form out of the events of one window (5.3.1).

The sum over group sizes i of C(n, i) * member^i * pair^e(i): n events, each of which fits the rest of the match with
selectivity `member`, and two of which fit each other with selectivity `pair`. Everything is in logarithms.

The paper needs n to be whole; measured rates are not. A rate of n events per window is read as windows that hold
floor(n) or floor(n) + 1 events, in the proportion that makes n the mean. So every value is the mean of real counts,
whole rates give exactly the paper's sum, fewer than one event per window give groups of one, and the sum grows with n.
"""

from __future__ import annotations

import math
from enum import Enum
from functools import lru_cache

from costmodel.logarithms import LOG_MAX, LOG_ZERO, clamped, log_expm1, log_of, log_sum

#: A term below its hill's top by this many powers of e does not count in double precision.
_NEGLIGIBLE = 45.0
#: By how much a logarithm may fall from one place of a sum to the next.
_CLOSE = 0.02
#: For slopes of logarithms.
_STEP = 1e-4
#: Up to this size, binomials are computed as whole numbers.
_SMALL = 64


class KleenePairs(Enum):
    """Which pairs of a group's members the conditions between members are checked on.

    `NEIGHBOURS` is the printed exponent e(i) = i - 1, `ALL` the i(i-1)/2 that the match definition (3.1) asks for and
    that the engine checks.
    """

    NEIGHBOURS = "neighbours"
    ALL = "all"


@lru_cache(maxsize=16_384)
def log_groups(events: float, log_member: float, log_pair: float, pairs: KleenePairs) -> float:
    """The logarithm of the number of non-empty groups that `events` events per window form."""
    whole = math.floor(events)
    part = events - whole
    fewer = _log_groups_of(whole, log_member, log_pair, pairs)
    if not part:
        return fewer
    more = _log_groups_of(whole + 1, log_member, log_pair, pairs)
    return log_sum(math.log1p(-part) + fewer, math.log(part) + more)


def mean_size(events: float, log_member: float, log_pair: float, pairs: KleenePairs) -> float:
    """The mean number of members of these groups: by how many percent there are more of them if members fit by one
    percent more."""
    if events <= 1:
        return 1.0
    less, more = (log_groups(events, log_member + by, log_pair, pairs) for by in (-_STEP, _STEP))
    return max(1.0, (more - less) / (2 * _STEP))


def log_empty_group(log_pair: float, pairs: KleenePairs) -> float:
    """The logarithm of the term for i = 0, with which the printed sum begins: 1 / sigma for the exponent i - 1."""
    return clamped(-log_pair) if pairs is KleenePairs.NEIGHBOURS else 0.0


def _log_groups_of(count: int, log_member: float, log_pair: float, pairs: KleenePairs) -> float:
    if count == 0 or log_member <= LOG_ZERO:
        return LOG_ZERO
    if pairs is KleenePairs.NEIGHBOURS or log_pair == 0.0:
        return _log_neighbour_sum(count, log_member, log_pair)
    return _log_hill_sum(count, log_member, log_pair)


def _log_neighbour_sum(count: int, log_member: float, log_pair: float) -> float:
    """((1 + pair * member)^n - 1) / pair, the closed form of the sum with exponent i - 1."""
    log_step = log_member + log_pair
    log_events = math.log(count)
    if log_events + log_step < -20:  # the two leading terms are all that a double can hold, and pair may be 0
        return log_events + log_member + math.log1p((count - 1) / count * math.exp(log_events + log_step) / 2)
    exponent = math.exp(log_events + math.log(math.log1p(math.exp(log_step))))
    return clamped(log_expm1(exponent) - log_pair)


def _log_hill_sum(count: int, log_member: float, log_pair: float) -> float:
    """The sum with exponent i(i-1)/2. Its terms rise to one top and fall again, faster and faster on both sides.

    A wide hill is so smooth that every h-th term, times h, gives the sum to the last digits (the trapezoidal rule for
    something like a bell curve, with several places per standard deviation).
    """

    def log_term(size: int) -> float:
        return _log_binomial(count, size) + size * log_member + size * ((size - 1) / 2 * log_pair)

    top = _top(count, log_member, log_pair)
    highest = log_term(top)
    if highest >= LOG_MAX:
        return LOG_MAX
    spread = 1 / math.sqrt(1 / (count - top + 1) + 1 / (top + 1) - log_pair)
    # A hill that is cut off at its top, at size 1 or `count`, falls at a slope instead: places lie close on it.
    slope = max((highest - log_term(near) for near in (top - 1, top + 1) if 1 <= near <= count), default=0.0)
    step = max(1, int(min(spread / 4, _CLOSE / slope if slope > 0 else math.inf)))
    summed = 1.0
    for direction in (-step, step):
        size = top + direction
        while 1 <= size <= count and (fall := highest - log_term(size)) < _NEGLIGIBLE:
            summed += math.exp(-fall)
            size += direction
    return clamped(highest + math.log(summed) + math.log(step))


def _top(count: int, log_member: float, log_pair: float) -> int:
    """The group size with the largest term: the first that the next size does not exceed."""
    low, high = 1, count
    while low < high:
        size = (low + high) // 2
        if log_of((count - size) / (size + 1)) + log_member + size * log_pair < 0:
            high = size
        else:
            low = size + 1
    return low


def _log_binomial(count: int, size: int) -> float:
    """log C(count, size), accurate also where count is so large that log count! has lost its last digits."""
    rest = count - size
    if min(size, rest) <= _SMALL:
        return math.log(math.comb(count, size))
    # log count! - log rest! by Stirling's series, with the large parts taken away from each other beforehand.
    falling = size * (math.log(count) - 1) - (rest + 0.5) * math.log1p(-size / count)
    return falling + _stirling_tail(count) - _stirling_tail(rest) - math.lgamma(size + 1)


def _stirling_tail(number: int) -> float:
    return (1 - 1 / (30 * number) / number) / (12 * number)
