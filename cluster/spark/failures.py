"""What Spark says when a job fails, in one line of ours."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from decopa.errors import TraceError

_EXCEPTION_NAME = re.compile(r"^(?:[\w$]+\.)+[\w$]*(?:Exception|Error)\w*:?\s*")
_STACK_LINE = re.compile(r"^\s*(?:at |\.\.\. \d+ more)")


@contextmanager
def failing_as_trace_error(what: str) -> Iterator[None]:
    """Turns an error of Spark into a TraceError about `what`, with the innermost cause that Spark names.

    Warnings of PySpark and RayDP about their own ways (deprecated modules and properties) are dropped meanwhile.
    """
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except (Py4JJavaError, PySparkException) as err:
        raise TraceError(f"{what}: {innermost_cause(str(err))}") from err


def innermost_cause(text: str) -> str:
    """The message of the last `Caused by:` in a Java stack trace, or of the error itself, on one line."""
    lines = [line for line in text.splitlines() if line.strip() and not _STACK_LINE.match(line)]
    causes = [line.partition("Caused by: ")[2] for line in lines if "Caused by: " in line]
    if not causes:  # Py4J puts a line of its own before the exception
        named = [line.strip(": ") for line in lines if not line.startswith("An error occurred while calling")]
        causes = [re.sub(r"^: ", "", line) for line in named[:1]]
    message = causes[-1] if causes else "Spark gave no reason"
    return _EXCEPTION_NAME.sub("", message).strip() or message
