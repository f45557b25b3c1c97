"""What a job takes along to the cluster and brings back: its command line, rewritten for the folder it runs in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from decopa.errors import DeployError

#: Folders of a job, inside the one that is named by its id.
IN, OUT = "in", "out"
JOBS_FOLDER = "decopa-jobs"


@dataclass(frozen=True)
class Shipment:
    """`words` is the command line there; `inputs` are the names there of files here, `outputs` the other way round."""

    words: tuple[str, ...]
    inputs: Mapping[str, Path]
    outputs: Mapping[str, Path]


@dataclass(frozen=True)
class Flags:
    """Options of a command that name files: those to take along, those to bring back, and those that nodes must see."""

    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    seen_by_nodes: tuple[str, ...] = ()


def ship(words: Sequence[str], flags: Flags, *, query: str | None = None) -> Shipment:
    """The command line of a job: `words` with files replaced by their names in the job's folder.

    `query` is the word that names the query; a file is taken along, a text stays where it is.
    """
    inputs: dict[str, Path] = {}
    outputs: dict[str, Path] = {}
    rewritten: list[str] = []
    place = 0
    while place < len(words):
        flag, equals, value = words[place].partition("=")
        known = flag in (*flags.inputs, *flags.outputs, *flags.seen_by_nodes)
        if known and not equals and place + 1 < len(words):
            place += 1
            value = words[place]
        if known:
            rewritten += [flag, _there(flag, value, flags, inputs, outputs)]
        elif query is not None and words[place] == query and _is_file(query):
            rewritten.append(_taken("query", Path(query), inputs))
            query = None
        else:
            rewritten.append(words[place])
        place += 1
    return Shipment(tuple(rewritten), inputs, outputs)


def _there(flag: str, value: str, flags: Flags, inputs: dict[str, Path], outputs: dict[str, Path]) -> str:
    name = flag.lstrip("-")
    if flag in flags.inputs:
        return _taken(name, Path(value), inputs)
    if flag in flags.outputs:
        path = f"{OUT}/{name}{Path(value).suffix}"
        outputs[path] = Path(value).absolute()
        return path
    if "://" not in value and not PurePosixPath(value).is_absolute():
        raise DeployError(
            f"{flag} {value}: the machines of the cluster do not have your folder; name a path that they all see, "
            "beginning with /"
        )
    return value


def _is_file(word: str) -> bool:
    try:
        return Path(word).is_file()
    except (OSError, ValueError):  # too long or too strange for a path: the text of a query
        return False


def _taken(name: str, path: Path, inputs: dict[str, Path]) -> str:
    if not path.exists():
        raise DeployError(f"there is no '{path}'")
    there = f"{IN}/{name}{path.suffix}"
    inputs[there] = path.absolute()
    return there
