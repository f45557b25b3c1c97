"""The plans to compare with: everything at one node (naive), and optimal operator placement (oOP, MuSE 7.1)."""

from __future__ import annotations

from decopa.planning.network.combination import bits
from decopa.planning.network.instance import Instance
from decopa.planning.network.subplan import NONE, Flows, SubPlan, Workspace, single
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
    paid = existing or {}
    nodes = range(len(instance.nodes))

    def placed(pattern: Pattern) -> list[SubPlan]:
        mask = sum(1 << instance.aliases.index(leaf.alias) for leaf in leaves(pattern))
        if isinstance(pattern, EventRef | Kleene):
            return [workspace.leaf(instance, mask)]
        if len(children_of(pattern)) == 1 and not isinstance(pattern, Not):  # SEQ(P) is P, not one operator more
            return placed(children_of(pattern)[0])
        children: list[list[SubPlan]] = []
        for child in children_of(pattern):
            below = sum(1 << instance.aliases.index(leaf.alias) for leaf in leaves(child))
            if instance.is_primitive(below):
                children.append([workspace.leaf(instance, below)])
            elif isinstance(child, Not) or not instance.usable(below):
                children += [[workspace.leaf(instance, 1 << place)] for place in bits(below)]
            else:
                children.append(placed(child))
        found = []
        for node in nodes:
            chosen: list[SubPlan] = []
            for options in children:
                built = [workspace.joined(instance, mask, NONE, single(node), (*chosen, option)) for option in options]
                best = min(built, key=lambda plan: workspace.added(paid, plan.flows)[1])
                chosen.append(best.inputs[-1])
            found.append(workspace.joined(instance, mask, NONE, single(node), chosen))
        return found

    return min(placed(instance.query.pattern), key=lambda plan: workspace.added(paid, plan.flows)[1])
