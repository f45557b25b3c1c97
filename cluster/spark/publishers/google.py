"""The task events of Google's cluster-usage trace of 2011 (`clusterdata-2011-2`), as a trace.

The publisher's files are `task_events/part-?????-of-00500.csv.gz`: thirteen fields, no header, described in the
`schema.csv` beside them. Event types are the numbers 0 to 8; the DecoPa authors call them A to I, and read them with
the names of the trace of 2019 (`PAPER_NAMES`), which do not describe what the rows are.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import SparkSession

from cluster.spark.publishers.raw_traces import (
    Check,
    CheckedRows,
    Field,
    RawFile,
    field_count,
    filled,
    named,
    read_rows,
    typed,
    with_reasons,
)

LETTERS = tuple("ABCDEFGHI")
#: What the numbers 0 to 8 mean in the trace of 2011.
TASK_EVENTS = (
    "SUBMIT",
    "SCHEDULE",
    "EVICT",
    "FAIL",
    "FINISH",
    "KILL",
    "LOST",
    "UPDATE_PENDING",
    "UPDATE_RUNNING",
)
#: What the paper's queries call them.
PAPER_NAMES = ("Submit", "Queue", "Enable", "Schedule", "Evict", "Fail", "Finish", "Kill", "Lost")

#: Times with a meaning of their own.
BEFORE_TRACE, AFTER_TRACE = 0, 2**63 - 1
#: The largest time that queries can work with, in microseconds.
_MAX_TS = 2**62

TS = Field("ts", "bigint", required=True)
MISSING_INFO = Field("missing_info", "tinyint")
JOB_ID = Field("job_id", "bigint", required=True)
TASK_INDEX = Field("task_index", "int", required=True)
MACHINE_ID = Field("machine_id", "bigint")
EVENT_TYPE = Field("event_type", "int", required=True)
USER = Field("user", "string")
SCHEDULING_CLASS = Field("scheduling_class", "tinyint")
PRIORITY = Field("priority", "tinyint", required=True)
CPU_REQUEST = Field("cpu_request", "double")
MEMORY_REQUEST = Field("memory_request", "double")
DISK_REQUEST = Field("disk_request", "double")
DIFFERENT_MACHINES = Field("different_machines", "boolean")
#: As they follow each other in the files; which ones are required is the publisher's word.
FIELDS = (
    TS,
    MISSING_INFO,
    JOB_ID,
    TASK_INDEX,
    MACHINE_ID,
    EVENT_TYPE,
    USER,
    SCHEDULING_CLASS,
    PRIORITY,
    CPU_REQUEST,
    MEMORY_REQUEST,
    DISK_REQUEST,
    DIFFERENT_MACHINES,
)

SUFFIXES = (".csv", ".csv.gz")
#: Below the root of the publisher's bucket, beside the other tables.
FOLDER = "task_events"


def google_rows(spark: SparkSession, files: Sequence[RawFile], *, keep_before: bool = False) -> CheckedRows:
    """The rows of task event files, for `prepared`.

    Events from before the trace all have time 0: they are left out unless `keep_before`. Those from after it have no
    time that a query could work with, so they are always left out.
    """
    read = list(filled(files))
    code = EVENT_TYPE.value
    columns = {
        "ts": TS.value,
        "type": named(code, LETTERS),
        "task_event": named(code, TASK_EVENTS),
        "paper_name": named(code, PAPER_NAMES),
        **{field.name: field.value for field in FIELDS if field not in (TS, EVENT_TYPE, MISSING_INFO)},
        "missing_info": MISSING_INFO.value,
    }
    checks = [
        field_count(str(len(FIELDS))),
        *(check for field in FIELDS for check in field.checks),
        Check("event_type is not one of 0 to 8", ~code.between(0, len(LETTERS) - 1)),
        Check("time 2^63-1: after the end of the trace", TS.value == AFTER_TRACE, malformed=False),
        Check("ts is negative or too large", ~TS.value.between(0, _MAX_TS)),
    ]
    if not keep_before:
        checks.append(Check("time 0: before the beginning of the trace", TS.value == BEFORE_TRACE, malformed=False))
    rows = typed(read_rows(spark, read, [field.name for field in FIELDS], header=False), FIELDS)
    return CheckedRows(
        rows=with_reasons(rows, columns, checks, [MISSING_INFO.value.isNotNull()]),
        files=read,
        checks=checks,
        remarks=["were put in by the publisher where records were missing (missing_info tells which)"],
        types=LETTERS,
    )
