"""How many bytes flow between the processes of a plan, and which node each process should live on because of it.

Pure: rates come from the model (`decopa.runs.prediction`), nodes come as numbers of free places.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from decopa.errors import DeployError
from decopa.query.binding import BoundQuery
from shuffler.routing.topology import Lane, Topology
from shuffler.rows.layout import layout_of

#: Bytes of a value on the wire; all columns are 64 bits wide.
_VALUE_BYTES = 8

Flows = Mapping[tuple[str, str], float]


def flows_between(
    topology: Topology, bounds: Sequence[BoundQuery], emitted: Sequence[Mapping[str, float]]
) -> dict[tuple[str, str], float]:
    """Bytes of rows from process to process, by (sender, receiver); `emitted` is how many rows each operator of each
    part puts out.

    Members of Kleene groups and texts of strings are left out, and so is what messages cost besides their rows.
    """
    widths: dict[tuple[int, str], int] = {}

    def lane_bytes(lane: Lane) -> float:
        plan, routing = topology.plan.parts[lane.part], topology.routing[lane.part]
        operator = plan.operator(lane.source)
        if (lane.part, lane.source) not in widths:
            layout = layout_of(bounds[lane.part], operator.sub_query)
            widths[lane.part, lane.source] = _VALUE_BYTES * len(layout.columns)
        rows = emitted[lane.part][lane.source] / len(routing.senders(operator)) / plan.slices
        if lane.target is not None and operator.partitioned and not plan.stays(operator):
            rows /= plan.roles(plan.operator(lane.target)).active_units
        return rows * widths[lane.part, lane.source]

    return {ends: sum(map(lane_bytes, lanes)) for ends, lanes in topology.channels.items()}


def bytes_by_node(flows: Flows, homes: Mapping[str, str]) -> dict[str, float]:
    """Bytes that each node sends to others, if processes live where `homes` says."""
    sent = dict.fromkeys(homes.values(), 0.0)
    for (source, target), size in flows.items():
        if homes[source] != homes[target]:
            sent[homes[source]] += size
    return sent


@dataclass(frozen=True)
class Work:
    """What processes have to do and how fast nodes do it: `loads` are seconds on a node of speed 1, by process;
    `speeds` are by node. What is not named has no load, or speed 1."""

    loads: Mapping[str, float] = field(default_factory=dict)
    speeds: Mapping[str, float] = field(default_factory=dict)

    def seconds(self, process: str, node: str) -> float:
        return self.loads.get(process, 0.0) / self.speeds.get(node, 1.0)


def place_by_edges(
    processes: Sequence[str],
    flows: Flows,
    room: Mapping[str, int],
    pinned: Mapping[str, str],
    work: Work | None = None,
) -> dict[str, str]:
    """A node for each process, so that few bytes leave their node; `room` is how many processes a node takes.

    No process gets a node that is too slow for it: the slowest one takes as little time as it can (`work`). Within
    that, the processes that exchange most come first, each goes where most of its partners are; then single moves and
    exchanges of two are tried as long as one helps. The same input gives the same places.
    """
    free = dict(room)
    for node in pinned.values():
        free[node] = free.get(node, 0) - 1
    if sum(max(0, count) for count in free.values()) < len(processes) - len(pinned):
        shown = ", ".join(f"{count} on {node}" for node, count in room.items())
        raise DeployError(f"{len(processes)} processes do not fit on the free CPUs: {shown}; use fewer --units")
    ties: dict[str, dict[str, float]] = {name: {} for name in processes}
    for (source, target), size in flows.items():
        if source in ties and target in ties:
            ties[source][target] = ties[source].get(target, 0.0) + size
            ties[target][source] = ties[target].get(source, 0.0) + size
    loose = [name for name in processes if name not in pinned]
    fast_enough = _fast_enough(loose, free, work or Work())
    homes = dict(pinned)
    # Who may live on the fewest nodes chooses first: the nodes of each process contain those of every heavier one, so
    # that a place is left for all.
    for name in sorted(loose, key=lambda one: (len(fast_enough[one]), -sum(ties[one].values()), one)):
        pull = _pull(ties[name], homes)
        nodes = [one for one in free if free[one] > 0 and one in fast_enough[name]]
        node = max(nodes, key=lambda one: (pull.get(one, 0.0), free[one], one))
        homes[name] = node
        free[node] -= 1
    while _improve(homes, ties, free, fast_enough):
        pass
    return homes


def _fast_enough(processes: Sequence[str], free: Mapping[str, int], work: Work) -> dict[str, frozenset[str]]:
    """The nodes on which each process takes no longer than the slowest process has to: with the heaviest process on
    the fastest place, the next one on the next, the time of the slowest is the least that there is."""
    places = sorted(
        (node for node, count in free.items() for _ in range(count)), key=lambda one: -work.speeds.get(one, 1.0)
    )
    heaviest_first = sorted(processes, key=lambda one: -work.loads.get(one, 0.0))
    least_s = max((work.seconds(name, node) for name, node in zip(heaviest_first, places, strict=False)), default=0.0)
    return {
        name: frozenset(node for node in free if work.seconds(name, node) <= least_s * (1 + 1e-9)) for name in processes
    }


def _pull(partners: Mapping[str, float], homes: Mapping[str, str]) -> dict[str, float]:
    """How much a process exchanges with each node."""
    found: dict[str, float] = {}
    for partner, size in partners.items():
        if partner in homes:
            found[homes[partner]] = found.get(homes[partner], 0.0) + size
    return found


def _improve(
    homes: dict[str, str],
    ties: Mapping[str, Mapping[str, float]],
    free: dict[str, int],
    nodes_of: Mapping[str, frozenset[str]],
) -> bool:
    """Makes the first move, or exchange of two, that saves bytes; says whether there was one."""
    loose = list(nodes_of)
    for name in loose:
        pull, here = _pull(ties[name], homes), homes[name]
        for node in (one for one in free if free[one] > 0 and one != here and one in nodes_of[name]):
            if pull.get(node, 0.0) > pull.get(here, 0.0) * (1 + 1e-9):
                homes[name] = node
                free[node], free[here] = free[node] - 1, free[here] + 1
                return True
        for other in _later(loose, name):
            there = homes[other]
            if there == here or there not in nodes_of[name] or here not in nodes_of[other]:
                continue
            theirs, both = _pull(ties[other], homes), ties[name].get(other, 0.0)
            gained = pull.get(there, 0.0) - pull.get(here, 0.0) + theirs.get(here, 0.0) - theirs.get(there, 0.0)
            if gained - 2 * both > 1e-9 * (1 + abs(gained)):
                homes[name], homes[other] = there, here
                return True
    return False


def _later(names: Sequence[str], name: str) -> Iterable[str]:
    return names[names.index(name) + 1 :]
