"""Matches that are published with the checkpoint: staged, then shown, each exactly once.

    part-00000007.parquet    matches between checkpoints 6 and 7; appears when checkpoint 7 is complete
    _staged/                 what is not published yet; readers pass it by

A part is staged before its checkpoint is declared complete, and moved into place after. A crash in between leaves a
staged part that the manifest names: whoever resumes moves it. Staged parts that no complete checkpoint names are
removed, and written again by the next attempt.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa

from decopa.choices import PART_FORMATS
from decopa.errors import OutputError
from decopa.files import write_matches


class PublishedMatches:
    """A folder of parts, in Parquet or JSON lines."""

    def __init__(self, folder: Path, form: str = "parquet") -> None:
        if form not in PART_FORMATS:
            raise OutputError(f"matches are published as {' or '.join(PART_FORMATS)}, not '{form}'")
        self.folder, self._form = folder, form
        self._staged = folder / "_staged"

    def prepare(self, published: Iterable[str], *, after: int | None = None) -> None:
        """Makes the folder show exactly these parts: finishes what was begun, and removes what no one declared.

        If a run goes back to checkpoint `after`, because a later one is damaged, the parts that were published since
        are withdrawn: their matches will be found, and published, again.
        """
        wanted = set(published)
        if self._staged.is_symlink():  # what is in there will be removed
            raise OutputError(f"{self._staged} is a link; name another folder for the matches, or remove it")
        try:
            self._staged.mkdir(parents=True, exist_ok=True)
            self.publish(wanted)
            for path in self._staged.iterdir():
                path.unlink()
            odd = sorted(path.name for path in self.folder.glob("part-*") if path.name not in wanted)
            if after is not None:
                later = [name for name in odd if _number(name) > after]
                for name in later:
                    (self.folder / name).unlink()
                odd = [name for name in odd if name not in later]
        except OSError as err:
            raise OutputError(f"cannot write to {self.folder}: {err.strerror}; check rights and free space") from err
        if odd:
            raise OutputError(
                f"{self.folder} holds '{odd[0]}', which this run has not written; name an empty folder, or resume the "
                "run that it belongs to"
            )
        missing = sorted(name for name in wanted if not (self.folder / name).is_file())
        if missing:
            raise OutputError(f"{self.folder} lacks '{missing[0]}', which had been published; was it moved away?")

    def stage(self, number: int, matches: pa.Table) -> str | None:
        """Writes the matches of a checkpoint where no reader looks; None if there are none."""
        if not matches.num_rows:
            return None
        name = f"part-{number:08d}.{self._form}"
        write_matches(matches, self._staged / name, overwrite=True, durable=True)
        return name

    def unstage(self, number: int) -> None:
        """Forgets what was staged for a checkpoint that will not be."""
        with contextlib.suppress(OSError):
            (self._staged / f"part-{number:08d}.{self._form}").unlink(missing_ok=True)

    def publish(self, names: Iterable[str]) -> None:
        """Shows staged parts; those that are shown already stay as they are."""
        for name in names:
            staged = self._staged / name
            try:
                if staged.exists():
                    os.replace(staged, self.folder / name)
            except OSError as err:
                raise OutputError(f"cannot move {staged} to {self.folder}: {err.strerror}; check rights") from err

    def finish(self) -> None:
        shutil.rmtree(self._staged, ignore_errors=True)


def _number(part: str) -> int:
    """The checkpoint that a part was published with; 0 for a file that is no part."""
    digits = part.removeprefix("part-").partition(".")[0]
    return int(digits) if digits.isdigit() else 0
