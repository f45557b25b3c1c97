"""Addresses of live sources: one line that says where events come from and how they are to be read.

    kafka://host:9092,other:9092/topic?format=json&from=latest&time=record
    nats://host:4222/STREAM?subject=orders.>
    folder:///data/incoming
    tcp://host:9000

Options follow the question mark. The command line's own flags set the same options.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

from decopa.choices import COLUMN_KINDS, DEFAULT_IDLE_AFTER_S, STARTS
from decopa.choices import PAYLOAD_FORMATS as FORMATS
from decopa.choices import SOURCE_KINDS as KINDS
from decopa.errors import TraceError, did_you_mean
from decopa.query.names import duration_us


@dataclass(frozen=True)
class SourceAddress:
    """Where a stream is and how to read it.

    `servers` and `topic` mean what the kind makes of them: a topic, a stream, a folder. `start` is `earliest` or
    `latest`; `until_end` ends the stream where it ends now. With `record_time` an event's time is that of its record
    at the broker. `columns` says what columns hold; those of the first events are added unless it names all.
    `config` is a file of `name=value` lines for the client library, such as user and certificates: they are not kept
    with checkpoints. `skip_gaps` goes on where offsets to go on from are gone, and loses the events in between.
    """

    kind: str
    servers: str
    topic: str
    format: str = "json"
    start: str = "earliest"
    until_end: bool = False
    record_time: bool = False
    idle_after_s: float | None = DEFAULT_IDLE_AFTER_S
    subject: str = ""
    columns: Mapping[str, str] = field(default_factory=dict)
    config: str = ""
    skip_gaps: bool = False

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise TraceError(f"unknown kind of source '{self.kind}'{did_you_mean(self.kind, KINDS)}")
        if not self.topic and self.kind != "tcp":
            wanted = {"kafka": "host:9092/topic", "nats": "host:4222/STREAM", "folder": "/path"}[self.kind]
            raise TraceError(f"the address names no {self._what}; write {self.kind}://{wanted}")
        if not self.servers and self.kind != "folder":
            raise TraceError(f"the address names no server; write {self.kind}://host:port/...")
        if self.format not in FORMATS:
            raise TraceError(f"unknown format of payloads '{self.format}'{did_you_mean(self.format, FORMATS)}")
        if self.start not in STARTS:
            raise TraceError(f"a stream begins at earliest or latest, not '{self.start}'; change --from")
        for name, kind in self.columns.items():
            if kind not in COLUMN_KINDS:
                raise TraceError(f"column '{name}' cannot hold '{kind}'{did_you_mean(kind, COLUMN_KINDS)}")

    @property
    def _what(self) -> str:
        return {"kafka": "topic", "nats": "stream", "folder": "folder", "tcp": "server"}[self.kind]

    @property
    def name(self) -> str:
        """How messages name the source."""
        return f"{self._what} {self.topic or self.servers}"

    @property
    def identity(self) -> str:
        """What offsets belong to; servers may change their addresses."""
        return f"{self.kind}:{self.topic}" + (f"?{self.subject}" if self.subject else "")

    def __str__(self) -> str:
        """The address that `parse_address` takes, with all options that differ from their defaults."""
        options: list[tuple[str, str]] = []
        for name, attribute in _TEXTS.items():
            if getattr(self, attribute) != getattr(_DEFAULTS, attribute):
                options.append((name, getattr(self, attribute)))
        options += [("until", "end")] if self.until_end else []
        options += [("time", "record")] if self.record_time else []
        if self.idle_after_s != DEFAULT_IDLE_AFTER_S:
            idle = "never" if self.idle_after_s is None else f"{round(self.idle_after_s * 1e6)} us"
            options.append(("idle", idle))
        if self.columns:
            options.append(("schema", ",".join(f"{name}={kind}" for name, kind in self.columns.items())))
        options += [("gaps", "skip")] if self.skip_gaps else []
        path = quote(self.topic) if self.kind == "folder" else f"/{quote(self.topic, safe='')}"
        return f"{self.kind}://{self.servers}{path}" + (f"?{urlencode(options)}" if options else "")


_TEXTS = {"format": "format", "from": "start", "subject": "subject", "config": "config"}
_DEFAULTS = SourceAddress("folder", "", "/")


def is_address(text: object) -> bool:
    """Whether a text is the address of a live source, and not a path."""
    return isinstance(text, str) and text.partition("://")[0] in KINDS and "://" in text


def folder_address(folder: Path | str) -> SourceAddress:
    return SourceAddress("folder", "", str(Path(folder).resolve()))


def parse_address(text: str) -> SourceAddress:
    """The address that a text is; what is wrong with it is said in one line."""
    kind, separator, rest = text.partition("://")
    if not separator:
        raise TraceError(f"'{text}' is no address of a stream; write kafka://, nats://, tcp:// or folder://")
    # urlsplit knows no lists of hosts, so the host part is cut off first.
    servers, slash, path = rest.partition("?")[0].partition("/")
    query = urlsplit(f"x://x/?{rest.partition('?')[2]}").query
    topic = f"/{unquote(path)}" if kind == "folder" and slash else unquote(path)
    address = SourceAddress(kind, servers, topic)
    for name, value in parse_qsl(query, keep_blank_values=True):
        address = _with_option(address, name, value)
    return address


def _with_option(address: SourceAddress, name: str, value: str) -> SourceAddress:
    if name in _TEXTS:
        return replace(address, **{_TEXTS[name]: value})  # type: ignore[arg-type]  # all of them are texts
    if name == "gaps" and value == "skip":
        return replace(address, skip_gaps=True)
    if name == "until" and value == "end":
        return replace(address, until_end=True)
    if name == "time" and value in ("field", "record"):
        return replace(address, record_time=value == "record")
    if name == "idle":
        found = duration_us(value)
        if value != "never" and found is None:
            raise TraceError(f"idle={value} is no time; write 5s, or never")
        return replace(address, idle_after_s=None if found is None else found / 1e6)
    if name == "schema":
        pairs = (item.rpartition("=") for item in value.split(","))
        return replace(address, columns={column.strip(): kind.strip() for column, _, kind in pairs})
    known = (*_TEXTS, "until", "time", "idle", "schema", "gaps")
    raise TraceError(f"an address has no option '{name}={value}'{did_you_mean(name, known)}")
