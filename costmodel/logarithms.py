"""Rates and loads as natural logarithms: Kleene rates leave the range of floats long before they stop to matter.

A logarithm in here is always a finite float. Zero has the logarithm `LOG_ZERO`; everything is clamped to
[`LOG_ZERO`, `LOG_MAX`], so that sums of a few of them never become infinite or undefined.
"""

from __future__ import annotations

import math

#: Where plain floats saturate: no rate, load or scaling factor that is handed out is larger.
MAX_VALUE = 1e300
#: The logarithm of zero; its exponential is 0.0.
LOG_ZERO = -1e18
LOG_MAX = 1e18
_LOG_MAX_VALUE = math.log(MAX_VALUE)


def clamped(log_value: float) -> float:
    """The logarithm within the range that this module promises."""
    return min(max(log_value, LOG_ZERO), LOG_MAX)


def log_of(value: float) -> float:
    """The logarithm of a number that is zero or more."""
    return math.log(value) if value > 0 else LOG_ZERO


def value_of(log_value: float) -> float:
    """The number behind a logarithm, at most `MAX_VALUE`."""
    return math.exp(log_value) if log_value < _LOG_MAX_VALUE else MAX_VALUE


def log_sum(*log_values: float) -> float:
    """The logarithm of the sum of what is behind the given logarithms."""
    largest = max(log_values, default=LOG_ZERO)
    if largest <= LOG_ZERO:
        return LOG_ZERO
    return clamped(largest + math.log(math.fsum(math.exp(one - largest) for one in log_values)))


def log_expm1(value: float) -> float:
    """log(exp(value) - 1) for value > 0, without overflow."""
    return value + math.log1p(-math.exp(-value)) if value > 1 else math.log(math.expm1(value))
