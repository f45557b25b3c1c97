"""Every error a user can meet, one class per thing that was wrong.

All of them carry one line that says what is wrong, where, and how to fix it; the command line prints that line
and ends with status 2. Anything else that escapes is a bug.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

#: Characters of a message; in between is left out.
_LONGEST_MESSAGE = 2_000


class DecoPaError(Exception):
    """Base of all errors that are the input's fault or a limit's, never a bug's.

    Messages quote what was typed or read. So they are cut to a length that can be read, and what would break the line
    or change the terminal is shown as an escape.
    """

    def __init__(self, message: object = "") -> None:
        super().__init__(_one_line(str(message)))


class QueryError(DecoPaError):
    """The query text or tree is wrong; `line` and `column` (from 1) are known when it came from text."""

    def __init__(self, message: str, *, line: int | None = None, column: int | None = None) -> None:
        self.line, self.column = line, column
        where = "" if line is None else f"line {line}, column {column}: "
        super().__init__(where + message)


class TraceError(DecoPaError):
    """The events cannot be read, or are not what the query needs."""


class PlanError(DecoPaError):
    """The plan is malformed or would not find exactly the matches of its query."""


class StatisticsError(DecoPaError):
    """Rates or selectivities are missing or impossible."""


class OutputError(DecoPaError):
    """The matches cannot be written where they should go."""


class DeployError(DecoPaError):
    """What a run needs is not there: Java, Spark, Ray, or free places on the cluster."""


class CheckpointError(DecoPaError):
    """A checkpoint is damaged, of another version, or belongs to something else."""


class LimitError(DecoPaError):
    """A declared limit (matches, state) was exceeded; the run was stopped on purpose."""


class DecoPaWarning(UserWarning):
    """Something in the input deserves a look: the run goes on, and its result is exact."""


def _one_line(message: str) -> str:
    if len(message) > _LONGEST_MESSAGE:
        message = f"{message[: _LONGEST_MESSAGE // 2]} ... {message[-_LONGEST_MESSAGE // 2 :]}"
    if message.isprintable():
        return message
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in message)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`; did you mean 'x'?`, or the known names if none is near, to end an error message with."""
    names = sorted(set(known))
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    if not near:
        lowered = {candidate.lower(): candidate for candidate in names}
        near = [lowered[name.lower()]] if name.lower() in lowered else []
    if near:
        return f"; did you mean '{near[0]}'?"
    if not names:
        return ""
    shown = ", ".join(names[:12]) + (", ..." if len(names) > 12 else "")
    return f"; known: {shown}"
