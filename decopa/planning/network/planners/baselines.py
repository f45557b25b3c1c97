"""The plans to compare with: everything at one node (naive), and optimal operator placement (oOP, MuSE 7.1)."""

from __future__ import annotations

from decopa.planning.network.problem.combination import bits
from decopa.planning.network.problem.instance import Instance
from decopa.planning.network.problem.subplan import NONE, Flows, SubPlan, Workspace, single
from decopa.query.pattern import EventRef, Kleene, Not, Pattern, children_of, leaves


def gathered(instance: Instance, workspace: Workspace, node: int) -> SubPlan:
    """All events of the query travel to one node, which evaluates it alone."""
    return workspace.joined(instance, instance.full, NONE, single(node), workspace.leaves(instance))


def where_born(instance: Instance, workspace: Workspace) -> SubPlan:
    """A query of one event needs no network, unless it is a KL: then one node must see all events."""
    (leaf,) = workspace.leaves(instance)
    if leaf.axis == NONE:
        return naive(instance, workspace)
    return workspace.joined(instance, instance.full, leaf.axis, leaf.hosts, [leaf])


def naive(instance: Instance, workspace: Workspace, existing: Flows | None = None) -> SubPlan:
    """Gathering at the node where it costs least."""
    plans = [gathered(instance, workspace, node) for node in range(len(instance.nodes))]
    return min(plans, key=lambda plan: workspace.added(existing or {}, plan.flows)[1])


def operator_placement(instance: Instance, workspace: Workspace, existing: Flows | None = None) -> SubPlan:
    """oOP: the query's own operators, one node each, the best of all assignments.

    Operators form a tree, so the best assignment of each subtree for each node of its root is enough. A part with NOT
    or KL belongs to the operator around it.
    """
    found = _placed(instance.query.pattern, instance, workspace, existing or {}, greedy=False)
    return _cheapest(found, workspace, existing or {})


def greedy_placement(instance: Instance, workspace: Workspace, existing: Flows | None = None) -> SubPlan:
    """NEXT CEP's greedy placement with reuse (its 4.2 and 4.4): operators bottom-up, each at the node where it adds
    least to what travels already, for earlier queries too; no choice is revised. Of its costs those of the network
    count here."""
    found = _placed(instance.query.pattern, instance, workspace, existing or {}, greedy=True)
    return _cheapest(found, workspace, existing or {})


def _cheapest(plans: list[SubPlan], workspace: Workspace, paid: Flows) -> SubPlan:
    return min(plans, key=lambda plan: workspace.added(paid, plan.flows)[1])


def _placed(pattern: Pattern, instance: Instance, workspace: Workspace, paid: Flows, *, greedy: bool) -> list[SubPlan]:
    """The best plans of a subtree of operators, one for each node of its root; only the cheapest one if `greedy`."""

    def mask_of(part: Pattern) -> int:
        return sum(1 << instance.aliases.index(leaf.alias) for leaf in leaves(part))

    mask = mask_of(pattern)
    if isinstance(pattern, EventRef | Kleene):
        return [workspace.leaf(instance, mask)]
    children: list[list[SubPlan]] = []
    for child in children_of(pattern):
        below = mask_of(child)
        if below == mask and not isinstance(child, Not):  # an operator of a single child is that child (4.2)
            return _placed(child, instance, workspace, paid, greedy=greedy)
        if instance.is_primitive(below):
            children.append([workspace.leaf(instance, below)])
        elif isinstance(child, Not) or not instance.usable(below):
            children += [[workspace.leaf(instance, 1 << place)] for place in bits(below)]
        else:
            children.append(_placed(child, instance, workspace, paid, greedy=greedy))
    found = []
    for node in range(len(instance.nodes)):
        chosen: list[SubPlan] = []
        for options in children:
            built = [workspace.joined(instance, mask, NONE, single(node), (*chosen, option)) for option in options]
            chosen.append(_cheapest(built, workspace, paid).inputs[-1])
        found.append(workspace.joined(instance, mask, NONE, single(node), chosen))
    return [_cheapest(found, workspace, paid)] if greedy else found
