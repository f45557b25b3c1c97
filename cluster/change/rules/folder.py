"""RuleFolder: changes of rules as files beside a run, so that they can be asked for from outside and made again.

    changes.jsonl   what was asked for, a line each, in order; whoever wants a change appends one
    answers.jsonl   what became of each: the version and its time, or why it was refused; the run appends these
    rules.json      the rules as they are now, for whoever looks
    lock            held by the run that watches the folder

A change that was made has its event time in its answer. A run that begins anew makes it again at that time, so that
matches follow from the stream and the folder alone.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cluster.change.rules.versions import DOING, Doing, RuleError
from decopa.choices import RULE_SIGHTS, RuleSight
from decopa.errors import DecoPaError, OutputError
from decopa.files import write_text

#: A longer line is no change: queries are texts of a few lines.
_LONGEST_LINE = 1 << 20


@dataclass(frozen=True, slots=True)
class RuleChange:
    """A change as it was asked for. `at` is a time of the stream as the user wrote it; None is as soon as possible."""

    do: Doing
    name: str = ""
    query: str = ""
    sees: RuleSight = "window"
    at: int | str | None = None

    def to_line(self) -> str:
        chosen = {"do": self.do, "name": self.name, "query": self.query, "sees": self.sees, "at": self.at}
        return json.dumps({key: value for key, value in chosen.items() if value not in ("", None)}) + "\n"

    @classmethod
    def from_line(cls, line: str, where: str) -> RuleChange:
        try:
            found = json.loads(line) if len(line) <= _LONGEST_LINE else None
        except ValueError:
            found = None
        if not isinstance(found, dict) or found.get("do") not in DOING:
            raise RuleError(f"{where} is no change of rules; use `decopa rules add`, `remove` or `replace`")
        texts = [found.get(key, "") for key in ("name", "query")]
        at = found.get("at")
        fits = all(isinstance(text, str) for text in texts) and not isinstance(at, bool)
        if not fits or not isinstance(at, int | str | None) or found.get("sees", RULE_SIGHTS[0]) not in RULE_SIGHTS:
            raise RuleError(f"{where} is no change of rules: name, query and at are texts, sees is window or new")
        return cls(found["do"], texts[0], texts[1], found.get("sees", RULE_SIGHTS[0]), at)


class RuleFolder:
    """The files of one folder. Several may ask for changes at a time; one run at a time answers."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._changes, self._answers = self.path / "changes.jsonl", self.path / "answers.jsonl"

    def ask(self, change: RuleChange) -> int:
        """Appends a change; returns its number, from 1 on."""
        with self._written(self._changes) as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            os.write(file, change.to_line().encode())
        return sum(1 for _ in self._lines(self._changes))

    def asked(self, after: int = 0) -> Iterator[tuple[int, str]]:
        """The changes after the first so many, with their numbers, as lines."""
        for number, line in enumerate(self._lines(self._changes), 1):
            if number > after:
                yield number, line

    def answer(self, number: int, found: Mapping[str, Any]) -> None:
        with self._written(self._answers) as file:
            os.write(file, (json.dumps({"change": number, **found}) + "\n").encode())

    def answers(self) -> dict[int, dict[str, Any]]:
        """What became of changes, by their numbers."""
        found: dict[int, dict[str, Any]] = {}
        for line in self._lines(self._answers):
            try:
                one = json.loads(line)
                found[int(one["change"])] = one
            except (ValueError, KeyError, TypeError) as err:
                raise RuleError(f"'{self._answers}' is damaged; give the run another folder") from err
        return found

    def show(self, rules: list[dict[str, Any]], reached_us: int | None, events: int) -> None:
        """Writes down the rules as they are now."""
        state = {"reached_us": reached_us, "events": events, "rules": rules}
        write_text(json.dumps(state, indent=1) + "\n", self.path / "rules.json", overwrite=True)

    def shown(self) -> dict[str, Any]:
        """The rules as the run last wrote them down; RuleError if none has."""
        try:
            found = json.loads((self.path / "rules.json").read_text(encoding="utf-8"))
            assert isinstance(found, dict) and isinstance(found["rules"], list)
        except FileNotFoundError as err:
            raise RuleError(f"no run has kept rules in '{self.path}'; start one with `decopa run --rules DIR`") from err
        except (OSError, ValueError, KeyError, AssertionError) as err:
            raise RuleError(f"'{self.path / 'rules.json'}' is damaged; the next change writes it anew") from err
        return found

    @property
    def is_watched(self) -> bool:
        """Whether a run watches the folder now."""
        try:
            with (self.path / "lock").open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:
            return False
        return False

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Holds the folder for one run, which is made if need be."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as err:
            raise _cannot_write(self.path, err) from err
        with self._written(self.path / "lock") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as err:
                raise RuleError(f"another run watches '{self.path}'; give this one a folder of its own") from err
            yield

    @contextmanager
    def _written(self, path: Path) -> Iterator[int]:
        try:
            file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        except FileNotFoundError as err:
            raise RuleError(
                f"there is no folder '{self.path}'; name the one that `decopa run --rules` was given"
            ) from err
        except OSError as err:
            raise _cannot_write(path, err) from err
        try:
            yield file
        except BlockingIOError:
            raise
        except OSError as err:
            raise _cannot_write(path, err) from err
        finally:
            os.close(file)

    def _lines(self, path: Path) -> Iterator[str]:
        """The whole lines of a file; the last one may still be on its way."""
        try:
            with path.open(encoding="utf-8", errors="replace") as file:
                for line in file:
                    if line.endswith("\n"):
                        yield line
        except FileNotFoundError:
            return
        except OSError as err:
            raise DecoPaError(f"cannot read '{path}': {err.strerror or err}; check the path") from err


def _cannot_write(path: Path, err: OSError) -> OutputError:
    return OutputError(f"cannot write '{path}': {err.strerror or err}; check rights and free space")
