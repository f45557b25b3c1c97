"""What a user can choose between, and the defaults that help texts name.

Imports nothing of the project, so that `--help` loads nothing heavy; the first entry of a tuple is the default.
"""

from __future__ import annotations

from enum import Enum
from typing import Literal, get_args

#: Strategies that plan from statistics; the first is the default wherever there are some.
COST_BASED = ("decopa", "decopa-paper", "exhaustive", "hybrid", "state", "rip", "centralized")
#: `left-deep` alone needs no statistics.
STRATEGIES = ("left-deep", *COST_BASED)
#: What `decopa scale` compares unless it is told otherwise.
SCALED_STRATEGIES = ("decopa", "hybrid", "centralized")

RUNTIMES = ("local", "ray")
#: Ray's strategies for spreading a placement group over nodes.
PLACEMENTS = ("SPREAD", "PACK", "STRICT_SPREAD", "STRICT_PACK")


class Reading(Enum):
    """What a scaling factor multiplies: the costs of operators, or the rates of events."""

    LINEAR = "linear"
    RATES = "rates"


class Objective(Enum):
    """What a unit must not exceed: each of its limits on its own, as in the paper, or the time that it has.

    With `BUSY` the shares of all limits add up, as the time of one processor does: a unit that spends half of it on
    taking events in has half of it left for comparing.
    """

    LIMITS = "limits"
    BUSY = "busy"


READINGS = tuple(reading.value for reading in Reading)
OBJECTIVES = tuple(objective.value for objective in Objective)

LatePolicy = Literal["fail", "drop"]
LATE_POLICIES: tuple[LatePolicy, ...] = get_args(LatePolicy)
BadRowPolicy = Literal["fail", "divert"]
BAD_ROW_POLICIES: tuple[BadRowPolicy, ...] = get_args(BadRowPolicy)
#: What becomes of rows of a Spark frame without id, time or type.
MissingPolicy = Literal["fail", "drop"]
MISSING_POLICIES: tuple[MissingPolicy, ...] = get_args(MissingPolicy)
#: What Citi Bike's subscribers without a birth year are.
UnknownAge = Literal["young", "old", "drop"]
UNKNOWN_AGES: tuple[UnknownAge, ...] = get_args(UnknownAge)

#: Of one file of matches or events, by its suffix; and of the parts that a run with checkpoints publishes.
FILE_FORMATS = ("parquet", "csv", "jsonl")
PART_FORMATS = ("parquet", "jsonl")
#: What a column of a live stream can hold.
COLUMN_KINDS = ("int", "float", "string", "bool", "time")

#: Languages that a query can be written in.
LANGUAGES = ("text", "eql")
#: Names of the columns that every trace has.
DEFAULT_ID, DEFAULT_TS, DEFAULT_TYPE = "id", "ts", "type"
#: What a unit can do per second: one core of a common server, by `scripts/bench_engine`, rounded down. Planning needs
#: only their ratio to be right.
DEFAULT_INGESTED_PER_S, DEFAULT_COMPARED_PER_S = 2e6, 1e8
DEFAULT_MAX_MATCHES = 10_000_000
DEFAULT_MAX_STATE_BYTES = 4 * 2**30
DEFAULT_MAX_SPILL_BYTES = 64 * 2**30
DEFAULT_MAX_BAD_ROWS = 10_000
DEFAULT_CHECKPOINT_S = 1.0
#: Of a calibration: events to measure with, and how often.
DEFAULT_CALIBRATION_EVENTS, DEFAULT_CALIBRATION_REPEATS = 200_000, 3
