"""What has to hold between a match of one input and a match of the other, beyond what each fulfils already."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from actors.columnar.form_writer import FormWriter
from actors.columnar.pair_writer import Moment, PairWriter, Side
from decopa.planning.times import earliest, latest
from decopa.query.binding import BoundQuery, Condition
from decopa.query.conditions.predicate import Attr, Compare, Predicate
from shuffler.rows.batch import key_of
from shuffler.rows.layout import member_column


@dataclass(frozen=True)
class Pairing:
    """The constraints between two inputs of a join (4.1): shared positions, order, distinct events, conditions."""

    bound: BoundQuery
    left: Side
    right: Side

    @cached_property
    def left_aliases(self) -> frozenset[str]:
        return self.left.sub_query.positive(self.bound.query)

    @cached_property
    def right_aliases(self) -> frozenset[str]:
        return self.right.sub_query.positive(self.bound.query)

    @cached_property
    def shared(self) -> tuple[str, ...]:
        return tuple(sorted(self.left_aliases & self.right_aliases))

    @cached_property
    def order(self) -> tuple[tuple[str, str], ...]:
        """Order constraints across the inputs that do not follow from others."""
        both = self.left_aliases | self.right_aliases
        constraints = self.bound.query.order_constraints
        return tuple(
            sorted(
                (before, after)
                for before, after in constraints
                if self._across(before, after)
                and not any((before, other) in constraints and (other, after) in constraints for other in both)
            )
        )

    @cached_property
    def distinct(self) -> tuple[tuple[str, str], ...]:
        """Positions of one type, one in each input, that order alone does not keep apart."""
        query = self.bound.query
        return tuple(
            (one, other)
            for one in sorted(self.left_aliases - self.right_aliases)
            for other in sorted(self.right_aliases - self.left_aliases)
            if query.position(one).may_share_with(query.position(other))
            and (one, other) not in query.order_constraints
            and (other, one) not in query.order_constraints
        )

    @cached_property
    def conditions(self) -> tuple[Condition, ...]:
        """Conditions that both inputs together can decide and neither alone."""
        both = self.left_aliases | self.right_aliases
        return tuple(
            condition
            for condition in self.bound.conditions
            if condition.skips is None
            and condition.aliases <= both
            and condition.useful_with(both)
            and not condition.aliases <= self.left_aliases
            and not condition.aliases <= self.right_aliases
        )

    def flipped(self) -> Pairing:
        return Pairing(self.bound, self.right, self.left)

    def _across(self, one: str, other: str) -> bool:
        only_left, only_right = self.left_aliases - self.right_aliases, self.right_aliases - self.left_aliases
        return (one in only_left and other in only_right) or (one in only_right and other in only_left)


def write_pairing(
    bound: BoundQuery, pairing: Pairing, *, by_form: bool = False
) -> tuple[PairWriter, tuple[tuple[str, str], ...]]:
    """Bounds and checks for rows of the left input that probe stored rows of the right one, and the columns
    (left, right) whose equality an index can serve. `by_form` is explained at `FormWriter`."""
    writer = (FormWriter if by_form else PairWriter)(bound, pairing.left, pairing.right)
    _write_bounds(writer, pairing)
    _write_time_checks(writer, pairing)
    for one, other in pairing.distinct:
        writer.add_distinct(one, other)
    equal: list[tuple[str, str]] = []
    for alias in pairing.shared:
        if alias in pairing.right.sub_query.closed:
            equal.append((key_of(alias), key_of(alias)))
            writer.add_equal(key_of(alias))
            writer.add_same_group(alias)
        else:
            equal.append((f"{alias}.id", f"{alias}.id"))
            writer.add_equal(f"{alias}.id")
    for condition in pairing.conditions:
        equal += equality_columns(bound, pairing, condition.predicate)
        writer.add(condition.predicate)
    writer.arrange()
    return writer, tuple(equal)


def equality_columns(bound: BoundQuery, pairing: Pairing, predicate: Predicate) -> list[tuple[str, str]]:
    """The (left, right) columns of an equality that an index can serve: plain attributes of equal column type."""
    if not (isinstance(predicate, Compare) and predicate.op == "="):
        return []
    one, other = predicate.left, predicate.right
    if not (isinstance(one, Attr) and isinstance(other, Attr)):
        return []
    if one.alias not in pairing.left_aliases:
        one, other = other, one
    if one.alias in pairing.left.sub_query.closed or other.alias in pairing.right.sub_query.closed:
        return []
    columns = (
        pairing.left.layout.place(f"{one.alias}.{member_column(bound, one)}"),
        pairing.right.layout.place(f"{other.alias}.{member_column(bound, other)}"),
    )
    if pairing.left.layout.columns[columns[0]] != pairing.right.layout.columns[columns[1]]:
        return []
    return [columns]


def _write_bounds(writer: PairWriter, pairing: Pairing) -> None:
    """Bounds on the stored row's min_ts: from the window, and from order constraints where they are tighter."""
    order = pairing.bound.query.order_constraints
    stored = pairing.right_aliases
    writer.key_from(Moment("max_ts", windows=-1))
    writer.key_until(Moment("min_ts", windows=1))
    before_all = {alias for alias in pairing.left_aliases if all((alias, other) in order for other in stored)}
    for alias in sorted(latest(order, before_all)):
        if writer.carries(f"{alias}.last"):
            writer.key_from(Moment(f"{alias}.last", shift_us=1))
    after_some = {alias for alias in pairing.left_aliases if any((other, alias) in order for other in stored)}
    for alias in sorted(earliest(order, after_some - stored)):
        if writer.carries(f"{alias}.first"):
            writer.key_until(Moment(f"{alias}.first", shift_us=-1))
    for alias in pairing.shared:  # the stored row holds the same event, so it begins no later
        if writer.carries(f"{alias}.first"):
            writer.key_until(Moment(f"{alias}.first"))


def _write_time_checks(writer: PairWriter, pairing: Pairing) -> None:
    """What the bounds on min_ts do not settle; for a stored row of one event they settle everything."""
    if pairing.right.layout.place("max_ts") == "min_ts":
        return
    order = pairing.bound.query.order_constraints
    stored, probing = pairing.right_aliases, pairing.left_aliases
    # If each stored event is followed by some probe event, the probe row's own span bounds the whole.
    if not all(alias in probing or any((alias, other) in order for other in probing) for alias in stored):
        writer.add_until("max_ts", Moment("min_ts", windows=1))
    for before, after in pairing.order:
        if before in probing:
            if all((before, alias) in order for alias in stored):
                continue  # part of the lower bound
            writer.add_after(f"{after}.first", f"{before}.last")
        else:
            writer.add_before(f"{before}.last", f"{after}.first")
