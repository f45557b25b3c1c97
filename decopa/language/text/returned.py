"""RETURN, ORDER BY and LIMIT of a parsed text -> what becomes of each match."""

from __future__ import annotations

from lark import Token, Tree

from decopa.errors import QueryError
from decopa.language.conditions import attr_of, duration_of, expression_of, located, name_of
from decopa.query.conditions.predicate import Attr, Expr, Location, Over, figures
from decopa.query.output import EVERY_ATTRIBUTE, Output, Ranking, needed_attributes
from decopa.query.summary import Aggregate, Summary

Returned = tuple[tuple[Attr, ...], Summary | None, tuple[Output, ...]]


def returned_of(node: Tree[Token] | None, groups: frozenset[str]) -> Returned:
    """The attributes that matches carry to RETURN, and what is computed over all matches or of each, if anything is.

    An aggregate is over the members of a group if it names one of `groups`, else over all matches.
    """
    if node is None:
        return (), None, ()
    *items, group, every = node.children
    found = [_item(item, groups) for item in items]  # type: ignore[arg-type]
    over_matches = [one for one in found if isinstance(one, Aggregate)]
    if group is None and every is None and not over_matches:
        outputs = tuple(one for one in found if isinstance(one, Output))
        plain = all(isinstance(one.expr, Attr) and one.name is None for one in outputs)
        return needed_attributes(outputs), None, () if plain else outputs
    for item, one in zip(items, found, strict=True):
        if isinstance(one, Output) and (one.name is not None or not isinstance(one.expr, Attr)):
            raise located(
                item,
                f"RETURN has '{one}' beside aggregates over all matches; these are grouped by attributes, as in "
                "RETURN a.k, count(*) GROUP BY a.k",
            )
    keys = () if group is None else tuple(attr_of(child) for child in group.children)  # type: ignore[union-attr, arg-type]
    period = None if every is None else duration_of(every.children[0])  # type: ignore[union-attr, arg-type]
    summary = Summary(tuple(one.expr if isinstance(one, Output) else one for one in found), keys, period)  # type: ignore[misc]
    return summary.attributes, summary, ()


def _item(node: Tree[Token], groups: frozenset[str]) -> Output | Aggregate:
    returned, named = node.children
    assert isinstance(returned, Tree)
    name = None if named is None else name_of(named)  # type: ignore[arg-type]
    try:
        if returned.data == "all_matches":
            return _aggregate(Aggregate(name_of(returned.children[0]).lower()), name)  # type: ignore[arg-type]
        if returned.data == "every_attribute":
            if name is not None:
                raise QueryError("a.* stands for several columns, which have names; leave out AS")
            place = Location(returned.meta.line, returned.meta.column)
            return Output(Attr(name_of(returned.children[0]), EVERY_ATTRIBUTE, place))
        expr: Expr = expression_of(returned)
        if isinstance(expr, Over) and expr.of.alias not in groups:
            return _aggregate(Aggregate(expr.function, None if expr.function == "count" else expr.of), name)
        single = next((one for one in figures(expr) if one.of.alias not in groups), None)
        if single is not None:
            raise QueryError(
                f"'{single}' is over all matches, so it stands for itself; or name a group, as in sum(b.x)"
            )
        return Output(expr, name)
    except QueryError as err:
        raise err if err.line is not None else located(returned, str(err)) from None


def _aggregate(found: Aggregate, name: str | None) -> Aggregate:
    if name is not None:
        raise QueryError(f"'{found} AS {name}': figures over all matches are called as they are written; leave out AS")
    return found


def ranking_of(order: Tree[Token] | None, limit: Tree[Token] | None) -> Ranking | None:
    """ORDER BY and LIMIT, if there is one of them."""
    if order is None and limit is None:
        return None
    keys = []
    for key in () if order is None else order.children:
        assert isinstance(key, Tree)
        column, direction = key.children
        assert isinstance(column, Tree)
        name = name_of(column) if column.data == "name" else Output(expression_of(column)).column
        keys.append((name, str(direction).upper() == "DESC"))
    number = None if limit is None else limit.children[0]
    if number is not None and (not str(number).isdigit() or len(str(number)) > 18):
        raise located(number, f"LIMIT keeps a whole number of matches, got '{number}'; write it as in LIMIT 10")
    return Ranking(tuple(keys), None if number is None else int(str(number)))
