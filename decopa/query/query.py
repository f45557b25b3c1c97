"""Query = pattern + predicates + window, checked as a whole; its alternatives and its projections."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from decopa.errors import QueryError, did_you_mean
from decopa.query.analysis import (
    Chain,
    Negation,
    Position,
    Scope,
    Structure,
    alternatives,
    distinct_aliases,
    project,
    strip_kleene,
    structure,
)
from decopa.query.conditions.members import is_between_members
from decopa.query.conditions.predicate import (
    Attr,
    Predicate,
    aliases_of,
    attributes,
    conjuncts,
    figures,
    groups_of,
    renamed,
)
from decopa.query.limits import check_conditions
from decopa.query.names import duration_text, quoted
from decopa.query.output import EVERY_ATTRIBUTE, Output, Ranking, expanded, needed_attributes
from decopa.query.pattern import ANY_TYPE, Not, Or, Pattern, leaves
from decopa.query.summary import Summary
from decopa.query.wellformed import (
    check_aliases,
    check_having,
    check_known,
    check_output,
    check_predicate,
    check_skip,
    check_summary,
    error_at,
    nodes,
    skips_in,
    written_scopes,
)

#: Longest window, in microseconds (about 73,000 years): a timestamp (at most 2**62) plus a window fits into 64 bits.
MAX_WINDOW_US = 2**61
#: A match of more events than this is no pattern a person wrote.
MAX_POSITIONS = 32


@dataclass(frozen=True)
class Query:
    """A pattern, the conditions its events fulfil, and the window (microseconds) they fit into.

    `where` holds conjuncts: all of them must hold. `skips` holds the FILTER conditions: an event of a NEXT that fails
    one of them is no candidate, whereas one that fails a condition in `where` ends the match. `having` holds the
    conditions with aggregates over members, which are given in `where` and decided once groups are formed. `returns`
    names attributes reported with each match; with a `summary` they are what its figures are computed from, and
    matches themselves are not reported; with an `output` they are what its columns are computed from. `ranking` says
    which matches are kept, and in which order.
    """

    pattern: Pattern
    where: tuple[Predicate, ...]
    window_us: int
    name: str = "q"
    returns: tuple[Attr, ...] = ()
    summary: Summary | None = None
    skips: tuple[Predicate, ...] = ()
    having: tuple[Predicate, ...] = ()
    output: tuple[Output, ...] = ()
    ranking: Ranking | None = None

    def __post_init__(self) -> None:
        for name in ("where", "skips", "having"):
            parts = tuple(part for predicate in getattr(self, name) for part in conjuncts(predicate))
            object.__setattr__(self, name, parts)
        over_groups = tuple(one for one in self.where if any(True for _ in figures(one)))
        if over_groups:
            object.__setattr__(self, "having", (*self.having, *over_groups))
            object.__setattr__(self, "where", tuple(one for one in self.where if one not in over_groups))
        if isinstance(self.pattern, Not):
            raise QueryError(f"{self.pattern} has no positive event, so there is nothing to report")
        if not 0 < self.window_us <= MAX_WINDOW_US:
            raise QueryError(
                f"the window must be positive and at most {duration_text(MAX_WINDOW_US)}, "
                f"got {self.window_us} us; write it as in WITHIN 10 min"
            )
        if sum(1 for _ in leaves(self.pattern)) > MAX_POSITIONS:
            raise QueryError(f"the pattern has more than {MAX_POSITIONS} events; split it into several queries")
        check_aliases(self.pattern)
        check_conditions(self.conditions, len(alternatives(self.pattern)))  # raises, too, if OR stands for too many
        scopes = written_scopes(self.pattern)
        for predicate in self.conditions:
            check_predicate(predicate, self._position_of, scopes)
        for predicate in self.having:
            check_having(predicate, self._position_of)
        chains = [chain for alternative in alternatives(self.pattern) for chain in structure(alternative).chains]
        for predicate in self.skips:
            check_skip(predicate, chains, self.run_aliases)
        for attr in self.returns:
            check_known(attr, self._position_of)
            if attr.alias in self.negated_aliases:
                raise error_at(attr, f"RETURN {attr}: '{attr.alias}' is negated, so a match has no such event")
        if self.summary is not None:
            if self.returns != self.summary.attributes:
                wanted = ", ".join(map(str, self.summary.attributes))
                raise QueryError(f"'{self.summary}' needs the attributes {wanted} of a match")
            check_summary(self.summary, self.pattern, self.kleene_aliases)
        if self.output and self.returns != needed_attributes(self.output):
            raise QueryError(f"RETURN needs the attributes {', '.join(map(str, needed_attributes(self.output)))}")
        check_output(self.output, self.ranking, self.columns, self._position_of, figures_only=self.summary is not None)

    @cached_property
    def _position_of(self) -> dict[str, Position]:
        """One position per alias over all alternatives (an alias has the same type and KL in each)."""
        found: dict[str, Position] = {}
        for alternative in alternatives(self.pattern):
            for position in structure(alternative).positions:
                found.setdefault(position.alias, position)
        return found

    @property
    def conditions(self) -> tuple[Predicate, ...]:
        """All conditions on events, those of FILTER first; not those on figures of groups."""
        return (*self.skips, *self.where)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that RETURN adds to a match."""
        outputs = self.output or tuple(Output(attr) for attr in self.returns)
        return tuple(dict.fromkeys(one.column for one in outputs))

    def with_every_attribute(self, names: Iterable[str]) -> Query:
        """The query with the attributes of the trace in the place of `a.*`."""
        if not any(attr.name == EVERY_ATTRIBUTE for attr in self.returns):
            return self
        output = expanded(self.output or tuple(Output(attr) for attr in self.returns), names)
        return replace(self, output=output, returns=needed_attributes(output))

    @cached_property
    def structure(self) -> Structure:
        """Positions, order and negations; only of an OR-free query (see `branches`)."""
        return structure(self.pattern)

    @property
    def positions(self) -> tuple[Position, ...]:
        return self.structure.positions

    @property
    def order_constraints(self) -> frozenset[tuple[str, str]]:
        """Omega_q: pairs of aliases, the first strictly before the second (3.1)."""
        return self.structure.order

    @property
    def negations(self) -> tuple[Negation, ...]:
        return self.structure.negations

    @property
    def chains(self) -> tuple[Chain, ...]:
        """The NEXTs of an OR-free query, inner ones before those whose first pattern they are part of."""
        return self.structure.chains

    @cached_property
    def followers(self) -> dict[str, Chain]:
        """The chain in which each alias follows as a successor; the aliases of first patterns are not in it."""
        return {alias: chain for chain in self.chains for alias in chain.positions}

    def skips_at(self, alias: str) -> tuple[Predicate, ...]:
        """The FILTER conditions that choose the event at a position by comparing it with earlier ones of its NEXT."""
        return tuple(
            predicate
            for predicate in self.skips
            if len(aliases_of(predicate)) > 1 and self.skipping_alias(predicate) == alias
        )

    def skipping_alias(self, predicate: Predicate) -> str:
        """The position whose candidates a FILTER condition skips: the last one that it names."""
        named = aliases_of(predicate)
        chain = next((one for one in self.chains if named <= one.aliases and named & set(one.positions)), None)
        return min(named) if chain is None else max(named, key=chain.place)

    @property
    def aliases(self) -> tuple[str, ...]:
        """Every alias in query order, those of all alternatives and of negated parts included."""
        return tuple(dict.fromkeys(leaf.alias for leaf in leaves(self.pattern)))

    @property
    def positive_aliases(self) -> tuple[str, ...]:
        """The aliases a match can bind, in query order."""
        return tuple(alias for alias in self.aliases if alias not in self.negated_aliases)

    @cached_property
    def negated_aliases(self) -> frozenset[str]:
        return frozenset(alias for alias, position in self._position_of.items() if position.scope)

    @cached_property
    def kleene_aliases(self) -> frozenset[str]:
        return frozenset(alias for alias, position in self._position_of.items() if position.kleene)

    def group_of(self, alias: str) -> frozenset[str]:
        """The aliases whose events make up the members of a KL alias's group: itself and those it shares KL with."""
        return frozenset(self._position_of[alias].group)

    @cached_property
    def composites(self) -> frozenset[frozenset[str]]:
        """The groups whose members are of several events; all of their aliases are closed at once."""
        return frozenset(group for group in map(self.group_of, self.kleene_aliases) if len(group) > 1)

    @cached_property
    def run_aliases(self) -> frozenset[str]:
        """The aliases of ITER: groups that are runs of neighbours, formed before anything else."""
        return frozenset(alias for alias, position in self._position_of.items() if position.runs)

    @property
    def chosen_in_order(self) -> bool:
        """Whether steps cannot be taken in any order: NEXT and ITER choose events as the next ones, and groups of
        several events are formed out of their matches."""
        return bool(self.chains or self.run_aliases or self.composites)

    @property
    def attributes(self) -> frozenset[str]:
        """The attributes that conditions and RETURN read, by name; `id` and `ts` among them if they are named."""
        conditions = (attr.name for one in (*self.conditions, *self.having) for attr in attributes(one))
        return frozenset((*conditions, *(attr.name for attr in self.returns)))

    @property
    def event_types(self) -> tuple[str, ...]:
        """The types that the pattern names, in its order."""
        return tuple(dict.fromkeys(name for leaf in leaves(self.pattern) for name in leaf.types if name != ANY_TYPE))

    def position(self, alias: str) -> Position:
        return self._position_of[alias]

    def scope_of(self, alias: str) -> Scope:
        return self._position_of[alias].scope

    def context_of(self, negation: Negation) -> frozenset[str]:
        """The aliases that must be bound before `negation` can be decided (negation-closed, MuSE 5.2).

        Beyond its neighbours: every alias that a condition ties to a negated one and, for a NOT at an end of its
        SEQ, the whole match, since it is the match that fixes where the window ends.
        """
        parent = negation.scope[:-1]
        bound = negation.after | negation.before
        if not negation.after or not negation.before:
            bound |= {position.alias for position in self.positions if position.scope == parent}
        for predicate in self.where:
            named = aliases_of(predicate)
            if any(self.scope_of(alias) == negation.scope for alias in named):
                bound |= {alias for alias in named if self.scope_of(alias) == parent}
        return frozenset(bound)

    @property
    def nesting_of_not(self) -> int:
        """How many NOTs lie inside each other at most."""
        return max((len(negation.scope) for negation in self.negations), default=0)

    @cached_property
    def branches(self) -> tuple[Query, ...]:
        """The OR-free queries that together find this query's matches, in a form that can be executed.

        A condition that names an alias absent from a branch is left out of it. KL under NOT without a further NOT
        becomes a plain event: if a group blocks, each of its members does.
        """
        return tuple(self._branch(alternative) for alternative in alternatives(self.pattern))

    def _branch(self, alternative: Pattern) -> Query:
        distinct, written = distinct_aliases(alternative)
        plain = _plain_under_not(distinct)
        executable = strip_kleene(distinct, plain)
        positions = structure(executable).positions
        where, skips, having = (
            tuple(
                predicate
                for condition in conditions
                for predicate in _in_each_scope(condition, positions, written)
                if not any(is_between_members(predicate, alias) for alias in plain)
            )
            for conditions in (self.where, self.skips, self.having)
        )
        present = {position.alias for position in positions}
        output = tuple(one for one in self.output if aliases_of(one.expr) <= present)
        returns = tuple(attr for attr in self.returns if attr.alias in present)
        return replace(
            self,
            pattern=executable,
            where=where,
            returns=needed_attributes(output) if self.output else returns,
            skips=skips,
            having=having,
            output=output,
            ranking=None,
        )

    def project(self, aliases: Collection[str], *, stripped: Collection[str] = ()) -> Query:
        """The sub-query on a set of positions (Def. 1), with KL taken off the aliases in `stripped`.

        Positions, not types: a match binds events to aliases, so a type that appears twice may be cut between
        two sub-queries, which condition iii of Def. 1 forbids for matches that are mere sets of events.
        """
        wanted = (frozenset(aliases), frozenset(stripped))
        if wanted not in self._projections:
            self._projections[wanted] = self._project(*wanted)
        return self._projections[wanted]

    @cached_property
    def _projections(self) -> dict[tuple[frozenset[str], frozenset[str]], Query]:
        """Projections made so far: plans ask for the same few again and again."""
        return {}

    def _project(self, aliases: frozenset[str], stripped: frozenset[str]) -> Query:
        unknown = sorted(set(aliases) - set(self.aliases))
        if unknown:
            raise QueryError(f"no alias '{unknown[0]}' in {self.pattern}{did_you_mean(unknown[0], self.aliases)}")
        pattern = project(self.pattern, aliases)
        if pattern is None:
            raise QueryError(f"the aliases {sorted(aliases)} of {self.pattern} do not form a sub-query")
        kept = frozenset(leaf.alias for leaf in leaves(pattern))
        where = tuple(predicate for predicate in self.where if aliases_of(predicate) <= kept)
        chains = structure(pattern).chains if not any(isinstance(one, Or) for one in nodes(pattern)) else ()
        runs = self.run_aliases - set(stripped)
        skips = tuple(one for one in self.skips if aliases_of(one) <= kept and skips_in(one, chains, runs))
        pairs = [alias for alias in stripped if alias in kept]
        where = tuple(
            predicate for predicate in where if not any(is_between_members(predicate, alias) for alias in pairs)
        )
        whole = kept - set(stripped)
        having = tuple(one for one in self.having if aliases_of(one) <= kept and groups_of(one) <= whole)
        returns = tuple(attr for attr in self.returns if attr.alias in kept)
        stripped_pattern = strip_kleene(pattern, stripped)
        return replace(
            self,
            pattern=stripped_pattern,
            where=where,
            returns=returns,
            skips=skips,
            having=having,
            summary=None,
            output=(),
            ranking=None,
        )

    def __repr__(self) -> str:
        return f"Query({' '.join(str(self).split())!r})"

    def __str__(self) -> str:
        """Canonical text: `parse(str(query)) == query`."""
        lines = [f"QUERY {quoted(self.name)}", f"PATTERN {self.pattern}"]
        if self.conditions or self.having:
            parts = [*(f"FILTER({predicate})" for predicate in self.skips), *map(str, self.where + self.having)]
            lines.append("WHERE " + "\n  AND ".join(parts))
        lines.append(f"WITHIN {duration_text(self.window_us)}")
        if self.summary is not None:
            lines.append(str(self.summary))
        elif self.returns:
            lines.append("RETURN " + ", ".join(map(str, self.output or self.returns)))
        if self.ranking is not None:
            lines.append(str(self.ranking))
        return "\n".join(lines)


def _in_each_scope(
    condition: Predicate, positions: tuple[Position, ...], written: Mapping[str, str]
) -> Iterator[Predicate]:
    """The condition in the aliases of a branch, once for each scope in which all that it names is there.

    `written` tells what each alias of the branch is called in the condition.
    """
    named = aliases_of(condition)
    for scope in dict.fromkeys(position.scope for position in positions):
        visible = {written[p.alias]: p for p in positions if p.scope == scope[: len(p.scope)]}
        if named <= visible.keys() and any(visible[alias].scope == scope for alias in named):
            yield renamed(condition, {alias: visible[alias].alias for alias in named})  # type: ignore[misc]


def _plain_under_not(pattern: Pattern) -> frozenset[str]:
    """Kleene aliases that lie in a NOT which contains no further NOT."""
    found = structure(pattern)
    holders = {position.scope for position in found.positions}
    return frozenset(
        position.alias
        for position in found.positions
        if position.kleene and position.least == 1 and position.scope and not _has_inner(position.scope, holders)
    )


def _has_inner(scope: Scope, scopes: Iterable[Scope]) -> bool:
    return any(len(other) > len(scope) and other[: len(scope)] == scope for other in scopes)
