"""What processes begin with: what those of the same queries held, dealt out anew where the number of units differs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from actors.state.codec import UnitsCodec, UnitsState, decode_shuffler, part_key
from actors.state.host import decode_host, encode_host
from actors.state.migrate import may_rescale, rescale, rescale_feeders
from cluster.checkpoint.store import CheckpointStore, Manifest
from cluster.deploy.deployment import Restored
from cluster.session import StreamPlace
from decopa.errors import CheckpointError
from decopa.planning.plan import Plan
from decopa.query.binding import bind
from shuffler.routing.topology import Topology
from shuffler.rows.events import EventFormat
from shuffler.rows.strings import StringPool


@dataclass(frozen=True)
class Snapshot:
    """What the processes of a plan held at a place in the stream, by name; shufflers by their keys. To `read` it takes
    time: a file of each process, or its answer."""

    topology: Topology
    place: StreamPlace
    read: Callable[[], Mapping[str, bytes]]


def snapshot_of(store: CheckpointStore, manifest: Manifest) -> Snapshot:
    topology = Topology(Plan.from_json(manifest.plan), manifest.shufflers)
    place = StreamPlace(manifest.events, manifest.blocks)
    return Snapshot(topology, place, lambda: {name: store.read_state(manifest, name) for name in manifest.states})


def can_follow(saved: Plan, plan: Plan) -> bool:
    """Whether a run of `plan` can begin with what one of `saved` held: the same, or other numbers of units."""
    if saved == plan:
        return True
    before = dict(zip(saved.keys, Topology(saved).routing, strict=True))
    after = dict(zip(plan.keys, Topology(plan).routing, strict=True))
    return all(key in before and may_rescale(before[key], table) for key, table in after.items())


def restored(snapshot: Snapshot, topology: Topology, form: EventFormat, *, counted: bool = True) -> Restored:
    """What every process of a plan begins with; dealt out anew if it has another number of units. Unless what the old
    units did is `counted`, the new ones begin at nought."""
    saved, payloads = snapshot.topology, snapshot.read()
    if counted and saved.plan == topology.plan and saved.shufflers == topology.shufflers:
        units = {process.name: payloads[process.name] for process in topology.units}
        feeders = {
            name: decode_shuffler(topology.routing, payloads[key], name, verified=True, keys=topology.titles).feeders
            for name, key in zip(topology.shuffler_names, topology.shuffler_keys, strict=True)
        }
        return Restored(units, feeders)
    return _rescaled(saved, topology, form, payloads, counted=counted)


def _rescaled(
    old: Topology, new: Topology, form: EventFormat, payloads: Mapping[str, bytes], *, counted: bool
) -> Restored:
    if sorted(old.titles) != sorted(new.titles):
        raise CheckpointError("the checkpoint is of other queries; go on with those")
    shufflers = [
        decode_shuffler(old.routing, payloads[name], name, verified=True, keys=old.titles) for name in old.shuffler_keys
    ]
    saved: dict[str, list[Any]] = {key: [] for key in old.titles}
    for process in old.units:
        for content in decode_host(payloads[process.name], f"the checkpoint of {process.name}", verified=True):
            saved[part_key(content, process.name, old.titles)].append(content)
    dealt: dict[int, bytes] = {}
    feeders: list[tuple[Any, ...]] = [() for _ in range(new.shufflers)]
    for part, after in enumerate(new.routing):
        key = new.titles[part]
        place = old.titles.index(key)
        before, strings = old.routing[place], StringPool()
        bound = bind(after.plan.query, form.schema)
        codec = UnitsCodec(before, bound, strings, key=key, place=place)
        groups = [codec.decode(one, f"the checkpoint of {key}", verified=True).group for one in saved[key]]
        state = UnitsState(key, 0, rescale(before, after, groups, counted=counted))
        dealt[part] = UnitsCodec(after, bound, strings, key=key, place=part).encode(state)
        more = rescale_feeders(before, after, [shuffler.feeders[place] for shuffler in shufflers])
        feeders = [(*mine, one) for mine, one in zip(feeders, more, strict=True)]
    units = {process.name: encode_host([dealt[part] for part in new.held_by(process)]) for process in new.units}
    return Restored(units, dict(zip(new.shuffler_names, feeders, strict=True)))
