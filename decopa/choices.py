"""What a user can choose between, and the defaults that help texts name.

Imports nothing of the project, so that `--help` loads nothing heavy; the first entry of a tuple is the default.
"""

from __future__ import annotations

from enum import Enum
from typing import Literal, get_args

#: Strategies that plan from statistics; the first is the default wherever there are some.
COST_BASED = ("decopa", "decopa-paper", "exhaustive", "hybrid", "state", "rip", "centralized")
#: Strategies that decide what several queries share; the first is the default for several queries.
WORKLOAD_STRATEGIES = ("shared", "mcep", "mcep-prefix", "reordering-only", "sharing-only", "trivial")
#: `left-deep` alone needs no statistics.
STRATEGIES = ("left-deep", *COST_BASED, *WORKLOAD_STRATEGIES)
#: What `decopa scale` compares unless it is told otherwise.
SCALED_STRATEGIES = ("decopa", "hybrid", "centralized")

#: Strategies of `decopa network`; what they try to keep small; how they compute rates of matches.
NETWORK_STRATEGIES = ("search", "amuse", "amuse-star", "oop", "greedy", "naive", "central", "exhaustive")
NETWORK_OBJECTIVES = ("rows", "bytes")
RATE_MODELS = ("engine", "paper")

RUNTIMES = ("local", "ray")
#: Cluster files that `decopa cluster init` prints.
CLUSTER_KINDS = ("local", "aws", "gcp", "kuberay", "rayjob")
#: Commands that `decopa submit` runs on a cluster.
SUBMITTED = ("run", "resume", "stats", "calibrate", "scale")
#: Keeps processes that exchange much on one node, by the rates that statistics predict.
EDGES = "EDGES"
#: Where units go: Ray's strategies for placement groups, and our own.
PLACEMENTS = ("SPREAD", "PACK", "STRICT_SPREAD", "STRICT_PACK", EDGES)
#: How messages between processes may be compressed: quickly, or to fewer bytes.
COMPRESSIONS = ("lz4", "zstd")

#: What a rule that is added sees of the stream: its window, or new events only.
RuleSight = Literal["window", "new"]
RULE_SIGHTS: tuple[RuleSight, ...] = ("window", "new")
#: `--adapt`: another plan must sustain this many times as much; looks this often (s); keeps this many bytes of events.
DEFAULT_ADAPT_GAIN = 1.25
DEFAULT_ADAPT_EVERY_S = 1.0
DEFAULT_HISTORY_BYTES = 1 << 30


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


class Order(Enum):
    """The order of the matches in a result.

    `CANONICAL`: by end, start, then event ids in query order: the same rows in the same order under any plan, on any
    number of units. `END`: by end; matches that end together come in any order. `ANY`: as they are found.
    """

    CANONICAL = "canonical"
    END = "end"
    ANY = "any"


ORDERS = tuple(order.value for order in Order)
READINGS = tuple(reading.value for reading in Reading)
OBJECTIVES = tuple(objective.value for objective in Objective)

#: What happens when a query exceeds a limit: the run ends, or it goes on with the other queries.
LimitPolicy = Literal["stop", "drop-query"]
LIMIT_POLICIES: tuple[LimitPolicy, ...] = get_args(LimitPolicy)
LatePolicy = Literal["fail", "drop", "divert"]
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
#: In place of a file or folder: matches are counted and not made.
NO_OUTPUT = "none"
PART_FORMATS = ("parquet", "jsonl")
#: What a column of a live stream can hold.
COLUMN_KINDS = ("int", "float", "string", "bool", "time", "utc")
#: Units of times that are numbers, with their names.
TIME_UNITS = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}
#: What numbers of a column are taken for, by its kind, if nobody says it.
DEFAULT_TIME_UNITS = {"int": "us", "float": "s"}
#: Kinds of live sources, formats of their payloads, and where a stream begins.
SOURCE_KINDS = ("kafka", "nats", "folder", "tcp")
PAYLOAD_FORMATS = ("json", "csv", "arrow")
STARTS = ("earliest", "latest")
#: How long a partition may bring nothing before it no longer holds back the others.
DEFAULT_IDLE_AFTER_S = 10.0

#: Languages that a query can be written in.
LANGUAGES = ("text", "eql")
#: Names of the columns that every trace has.
DEFAULT_ID, DEFAULT_TS, DEFAULT_TYPE = "id", "ts", "type"
#: What a unit can do per second: one core of a common server, by `scripts/bench_engine`, rounded down. Planning needs
#: only their ratio to be right.
DEFAULT_INGESTED_PER_S, DEFAULT_COMPARED_PER_S = 2e6, 1e8
DEFAULT_MAX_MATCHES = 10_000_000
#: Groups that a unit may form out of one batch of its input.
DEFAULT_MAX_GROUPS = 50_000_000
#: A plan that is predicted to keep a processor busy for longer is refused.
REFUSED_HOURS = 6
#: Events per batch in one process: long enough to make the work per batch negligible, short enough for the cache.
DEFAULT_BATCH_SIZE = 65_536
#: Of a workload of many parts: each gets few events of a batch, so that the work per batch is not negligible.
DEFAULT_BATCH_SIZE_OF_MANY = 262_144
DEFAULT_MAX_STATE_BYTES = 4 * 2**30
DEFAULT_MAX_SPILL_BYTES = 64 * 2**30
#: Of the files that one process writes to a folder of matches.
DEFAULT_MAX_FOLDER_BYTES = 256 * 2**30
DEFAULT_MAX_BAD_ROWS = 10_000
DEFAULT_CHECKPOINT_S = 1.0
#: Of a calibration: events to measure with, and how often.
DEFAULT_CALIBRATION_EVENTS, DEFAULT_CALIBRATION_REPEATS = 200_000, 3
