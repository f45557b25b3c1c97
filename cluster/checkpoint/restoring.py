"""What processes begin with: what those of the same queries held, dealt out anew where the number of units differs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from actors.state.codec import UnitsCodec, UnitsState, decode_shuffler, part_key
from actors.state.host import decode_host, encode_host
from actors.state.migrate import may_rescale, rescale, rescale_feeders
from cluster.checkpoint.store import CheckpointStore, Manifest
from cluster.deploy.beginning import Restored
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
    if sorted(saved.titles) != sorted(topology.titles):
        raise CheckpointError("the checkpoint is of other queries; go on with those")
    return _dealt({key: _Held(saved, payloads) for key in topology.titles}, topology, form, counted=counted)


def joined(
    carried: Snapshot, keys: Collection[str], built: Snapshot, topology: Topology, form: EventFormat
) -> Restored:
    """What every process of a plan begins with where the parts with these keys are `carried` over from one that ran,
    and the others were `built`. Both snapshots are of one place in the stream; what was counted is nobody's."""
    ran, made = (_Held(one.topology, one.read()) for one in (carried, built))
    return _dealt({key: ran if key in keys else made for key in topology.titles}, topology, form, counted=False)


class _Held:
    """What processes held, by parts."""

    def __init__(self, topology: Topology, payloads: Mapping[str, bytes]) -> None:
        self.topology, keys = topology, topology.titles
        self.shufflers = [
            decode_shuffler(topology.routing, payloads[name], name, verified=True, keys=keys)
            for name in topology.shuffler_keys
        ]
        self.units: dict[str, list[Any]] = {key: [] for key in keys}
        for process in topology.units:
            for content in decode_host(payloads[process.name], f"the checkpoint of {process.name}", verified=True):
                self.units[part_key(content, process.name, keys)].append(content)


def _dealt(found: Mapping[str, _Held], new: Topology, form: EventFormat, *, counted: bool) -> Restored:
    """What the processes of a plan hold if its parts come from these, by their keys."""
    dealt: dict[int, bytes] = {}
    feeders: list[tuple[Any, ...]] = [() for _ in range(new.shufflers)]
    for part, after in enumerate(new.routing):
        key = new.titles[part]
        held = found[key]
        place = held.topology.titles.index(key)
        before, strings = held.topology.routing[place], StringPool()
        bound = bind(after.plan.query, form.schema)
        codec = UnitsCodec(before, bound, strings, key=key, place=place)
        groups = [codec.decode(one, f"the checkpoint of {key}", verified=True).group for one in held.units[key]]
        state = UnitsState(key, 0, rescale(before, after, groups, counted=counted))
        dealt[part] = UnitsCodec(after, bound, strings, key=key, place=part).encode(state)
        more = rescale_feeders(before, after, [shuffler.feeders[place] for shuffler in held.shufflers])
        feeders = [(*mine, one) for mine, one in zip(feeders, more, strict=True)]
    units = {process.name: encode_host([dealt[part] for part in new.held_by(process)]) for process in new.units}
    return Restored(units, dict(zip(new.shuffler_names, feeders, strict=True)))
