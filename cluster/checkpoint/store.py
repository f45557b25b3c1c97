"""Checkpoints on a filesystem: one folder each, complete once its manifest is there.

    run.json                                the run, for `decopa resume` (see `decopa.runs.spec_file`)
    attempt.json                            which attempt may write: whoever takes the run up writes the next number
    checkpoint-00000007/<process>.3.state   what each process held at the cut, written by attempt 3
    checkpoint-00000007/manifest.json       written last: where the stream was cut, and a checksum of every file

Any filesystem that pyarrow knows will do (a path, or a URI such as s3://bucket/folder); all nodes must see it. Nothing
in a manifest leads out of the folder: names of files are made from names of processes, not read.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from pyarrow import fs

from decopa.documents import Document, as_document, read_document, record_of
from decopa.errors import CheckpointError
from decopa.files import replace_on

FORMAT = "decopa-checkpoint"
VERSION = 2
RUN_FILE = "run.json"
#: Where versions before 0.2 kept the run.
_OLD_RUN_FILE = "job.json"
_FOLDER = re.compile(r"checkpoint-(\d{8})")
#: Numbers are counts, sizes, seconds and places in a stream.
_LARGEST = 2**62
#: A manifest or description of a run larger than this is none.
_MAX_DOCUMENT = 64 * 2**20


class NotWritten(CheckpointError):
    """What was to be kept could not be written, for want of space or of rights; nothing that was kept has changed."""


@dataclass(frozen=True, slots=True)
class StoredState:
    """What was written for a process."""

    size: int
    sha256: str


@dataclass(frozen=True)
class Manifest:
    """A complete checkpoint of a run of `plan` (as JSON). `events` is the place of the cut in the stream, `blocks` how
    many blocks were before it.

    `parts` names the files of matches that are published with it; `finished` is set at the end of the stream.
    """

    number: int
    attempt: int
    plan: str
    shufflers: int
    events: int
    blocks: int
    states: Mapping[str, StoredState]
    parts: tuple[str, ...] = ()
    matches: int = 0
    finished: bool = False
    extra: Mapping[str, Any] = field(default_factory=dict)


class CheckpointStore:
    """`location` is a folder, as a path or as a URI of a filesystem that pyarrow knows."""

    def __init__(self, location: str | Path) -> None:
        self.location = str(location)
        self._root = None if "://" in self.location else Path(location).resolve()
        self._files = _filesystem(self.location)
        #: States that `latest` has read and found whole, until someone asks for them.
        self._whole: dict[tuple[int, int, str], bytes] = {}

    # --------------------------------------------------------------- writing

    def write_state(self, number: int, process: str, payload: bytes, attempt: int) -> StoredState:
        """The file carries the attempt in its name: one that was given up may still be writing when the next begins."""
        self._replace(f"{_folder(number)}/{_file_of(process, attempt)}", payload)
        return StoredState(len(payload), hashlib.sha256(payload).hexdigest())

    def commit(self, manifest: Manifest) -> None:
        """From here on the checkpoint is complete."""
        self.check_attempt(manifest.attempt)
        document = {"format": FORMAT, "version": VERSION, **asdict(manifest)}
        self._replace(f"{_folder(manifest.number)}/manifest.json", _json(document))

    def begin_attempt(self) -> int:
        """The number of a new attempt; whoever has an earlier one can complete no checkpoint any more."""
        attempt = max([self._attempt(), *(self._attempt_of(number) for number in self.numbers())]) + 1
        self._replace("attempt.json", _json({"format": "decopa-attempt", "version": VERSION, "attempt": attempt}))
        return attempt

    def check_attempt(self, attempt: int) -> None:
        """Raises if the run has been taken up by another driver: one that was cut off, not dead, must not go on."""
        if self._attempt() > attempt:
            raise CheckpointError(f"the run in {self.location} has been taken up by another driver; this one stops")

    def prune(self, keep: int) -> None:
        """Removes all but the last `keep` complete checkpoints, and what is older than them."""
        complete = [number for number in self.numbers() if self._exists(f"{_folder(number)}/manifest.json")]
        for number in self.numbers():
            if complete[-keep:] and number < complete[-keep:][0]:
                self.discard(number)

    def discard(self, number: int) -> bool:
        """Removes a checkpoint; says whether it is gone. What cannot be removed now will be tried again."""
        try:
            self._files.delete_dir(_folder(number))
        except OSError:
            return number not in self.numbers()
        return True

    def discard_after(self, number: int) -> None:
        """Removes checkpoints that were begun after this one and never completed."""
        for other in self.numbers():
            if other > number and not self.discard(other):
                raise NotWritten(f"cannot remove {self._shown(_folder(other))}; check the folder's rights")

    def write_run(self, document: Mapping[str, Any]) -> None:
        """Keeps what `resume` needs to continue; the document has a format and a version of its own."""
        self._replace(RUN_FILE, _json(document))

    # --------------------------------------------------------------- reading

    def numbers(self) -> list[int]:
        """The checkpoints that were begun, oldest first."""
        if self._files.get_file_info("").type != fs.FileType.Directory:
            return []
        found = (_FOLDER.fullmatch(info.base_name) for info in self._files.get_file_info(fs.FileSelector("")))
        return sorted(int(match[1]) for match in found if match)

    def latest(self) -> Manifest | None:
        """The last checkpoint whose manifest and files are whole; None if there is none.

        To tell it reads every state. They are kept for `read_state`, so that a resumed run reads each file once.
        """
        for number in reversed(self.numbers()):
            self._whole = {}
            try:
                manifest = self.read(number)
                whole = {process: self.read_state(manifest, process) for process in manifest.states}
            except CheckpointError:
                continue
            self._whole = {(number, manifest.attempt, process): payload for process, payload in whole.items()}
            return manifest
        return None

    def latest_manifest(self) -> Manifest | None:
        """The last checkpoint that was completed, whether or not its states are whole: for those who want to know what
        ran, not to go on from there."""
        for number in reversed(self.numbers()):
            with contextlib.suppress(CheckpointError):
                return self.read(number)
        return None

    def read(self, number: int) -> Manifest:
        path = f"{_folder(number)}/manifest.json"
        document = self._document(path, FORMAT)
        where = document.where
        states = {
            name: record_of(StoredState, as_document(one, where, CheckpointError), largest=_LARGEST)
            for name, one in document.value("states", dict).items()
        }
        parts = tuple(_checked_part(name) for name in document.value("parts", list))
        whole = Document({**document.fields, "states": states, "parts": parts}, where, CheckpointError)
        manifest = record_of(Manifest, whole, largest=_LARGEST)
        if manifest.number != number:
            raise CheckpointError(f"{self._shown(path)} is that of checkpoint {manifest.number}")
        return manifest

    def read_state(self, manifest: Manifest, process: str) -> bytes:
        """What a process held; refused if it is not what was written. What `latest` has read is handed over once."""
        found = self._whole.pop((manifest.number, manifest.attempt, process), None)
        if found is not None:
            return found
        path = f"{_folder(manifest.number)}/{_file_of(process, manifest.attempt)}"
        stored = manifest.states.get(process)
        if stored is None:
            raise CheckpointError(f"checkpoint {manifest.number} in {self.location} knows no process '{process}'")
        payload = self._read(path, stored.size)
        if len(payload) != stored.size or hashlib.sha256(payload).hexdigest() != stored.sha256:
            raise CheckpointError(f"{self._shown(path)} is damaged: it is not what was written")
        return payload

    def read_run(self) -> bytes:
        """The document that `write_run` kept, as JSON."""
        if not self._exists(RUN_FILE) and self._exists(_OLD_RUN_FILE):
            raise CheckpointError(
                f"{self._shown(_OLD_RUN_FILE)} was written by an older decopa; resume with the release that wrote "
                "it, or start anew"
            )
        return self._content(RUN_FILE)

    def _attempt(self) -> int:
        """The attempt that may write; 0 if nothing says so."""
        try:
            attempt: int = self._document("attempt.json", "decopa-attempt").value("attempt", int)
        except CheckpointError:
            return 0
        return attempt if 0 <= attempt < _LARGEST else 0

    def _attempt_of(self, number: int) -> int:
        try:
            return self.read(number).attempt
        except CheckpointError:
            return 0

    # --------------------------------------------------------------- files

    def _document(self, path: str, expected: str) -> Document:
        """The fields of a document of ours, without its format and version."""
        document = read_document(
            self._content(path),
            format=expected,
            version=VERSION,
            name=self._shown(path),
            error=CheckpointError,
            remedy="resume with the release that wrote it, or start anew",
        )
        fields = {name: value for name, value in document.fields.items() if name not in ("format", "version")}
        return Document(fields, f"{document.where} is damaged", CheckpointError)

    def _content(self, path: str) -> bytes:
        if not self._exists(path):
            raise CheckpointError(f"no {self._shown(path)}; check that this is the folder of a run with checkpoints")
        return self._read(path, _MAX_DOCUMENT)

    def _exists(self, path: str) -> bool:
        return bool(self._files.get_file_info(path).type == fs.FileType.File)

    def _read(self, path: str, most: int) -> bytes:
        self._check_inside(path)
        try:
            with self._files.open_input_stream(path) as stream:
                return bytes(stream.read(most + 1))
        except OSError as err:
            raise CheckpointError(f"cannot read {self._shown(path)}: {err}") from err

    def _replace(self, path: str, payload: bytes) -> None:
        """The whole file or nothing."""
        self._check_inside(f"{path}.part")
        try:
            replace_on(self._files, path, payload)
        except OSError as err:
            raise NotWritten(
                f"cannot write {self._shown(path)}: {err}; check the folder's rights and free space"
            ) from err

    def _check_inside(self, path: str) -> None:
        """A link in the folder of checkpoints must not make anyone read or write elsewhere."""
        if self._root is not None and not (self._root / path).resolve().is_relative_to(self._root):
            raise CheckpointError(f"{self._shown(path)} leads out of the folder of checkpoints; remove that link")

    def _shown(self, path: str) -> str:
        return f"{self.location.rstrip('/')}/{path}"


def _filesystem(location: str) -> fs.FileSystem:
    try:
        if "://" in location:
            base, path = fs.FileSystem.from_uri(location)
        else:
            base, path = fs.LocalFileSystem(), str(Path(location).resolve())
        base.create_dir(path, recursive=True)
    except (OSError, ValueError) as err:
        raise CheckpointError(f"cannot keep checkpoints in '{location}': {err}") from err
    return fs.SubTreeFileSystem(path, base)


def _folder(number: int) -> str:
    return f"checkpoint-{number:08d}"


def _file_of(process: str, attempt: int) -> str:
    return f"{quote(process, safe='', errors='surrogatepass')}.{attempt}.state"


def _checked_part(name: object) -> str:
    """The name of a file of matches: a plain one, so that no manifest can point elsewhere."""
    if not isinstance(name, str) or not re.fullmatch(r"part-\d{8}\.(parquet|jsonl)", name):
        raise CheckpointError(f"'{name}' is no name of a file of matches")
    return name


def _json(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document, indent=1, sort_keys=True).encode("utf-8")
