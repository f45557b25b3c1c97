"""Query texts for fuzzing: well-formed ones, soups of words, and shapes that should exhaust something."""

from __future__ import annotations

from random import Random

from scripts.reliability.mutations import NUMBERS, TEXTS, damaged_text

TYPES = ("A", "B", "C", '"a b"', '"A"')
ALIASES = ("a", "b", "c", "d", "e", '"x y"')
ATTRIBUTES = ("x", "y", "n", "s", "flag", "ts", "id", "lat", "lon", "unknown")
WORDS = (
    "QUERY", "PATTERN", "WHERE", "WITHIN", "RETURN", "SEQ", "AND", "OR", "KL", "NSEQ", "NOT", "FORALL", "IN",
    "TRUE", "FALSE", "(", ")", ",", ".", ":", ";", "+", "-", "*", "/", "<", "<=", ">", ">=", "=", "!=", "<>", "==",
    "a", "b", "A", "B", "a.x", "b.n", "'p'", "1", "2.5", "1e5", "10 min", "3us", "1 d", "--", "abs(", "dist_km(",
    "min(", "sqrt(", "chord_km(1)",
)  # fmt: skip


def odd_query(random: Random) -> str:
    """Any of: a well-formed query, a damaged one, words at random, a shape that is too much."""
    match random.randrange(10):
        case 0 | 1 | 6:
            return _workload(random)
        case 2:
            return " ".join(random.choice((*WORDS, *NUMBERS)) for _ in range(random.choice((3, 10, 40, 400))))
        case 3:
            return "PATTERN SEQ(A a, B b) WHERE " + " ".join(random.choice(WORDS) for _ in range(random.randrange(25)))
        case 4:
            return random.choice(_SHAPES)(random)
        case 5:
            return random.randbytes(random.choice((4, 50, 2_000))).decode("utf-8", "surrogateescape")
    return damaged_text(_workload(random), random, WORDS)


def _workload(random: Random) -> str:
    if random.random() < 0.85:
        return _query(random)
    return random.choice((" ", ";\n", "")).join(
        f"QUERY {random.choice(('q', f'q{number}', chr(34) + 'q' + chr(34)))} {_query(random)}"
        for number in range(random.choice((2, 3, 30)))
    )


def _query(random: Random) -> str:
    if random.random() < 0.6:
        return _sound_query(random)
    where = f" WHERE {_condition(random, 3)}" if random.random() < 0.8 else ""
    returns = f" RETURN {', '.join(_attribute(random) for _ in range(random.randrange(1, 4)))}"
    amount = random.choice(("10 min", "1 s", "1.5 h", "3 us", "0 s", f"{random.choice(NUMBERS)} d", "5"))
    return f"PATTERN {_pattern(random, 3)}{where} WITHIN {amount}{returns if random.random() < 0.3 else ''}"


def _sound_query(random: Random) -> str:
    """Most likely one without faults."""
    names = random.sample(ALIASES[:-1], random.randrange(1, len(ALIASES)))
    events = [f"{random.choice(TYPES)} {name}" for name in names]
    events = [random.choice((event, event, event, f"KL({event})", f"NOT({event})")) for event in events]
    for _ in range(random.randrange(3)):
        place = random.randrange(len(events))
        inner = ", ".join(events[place : place + 3])
        events[place : place + 3] = [f"{random.choice(('SEQ', 'AND', 'OR'))}({inner})"]
    numbers = [f"{name}.{random.choice(('x', 'n', 'y', 'ts'))}" for name in names]
    conditions = []
    for _ in range(random.randrange(4)):
        one, other = random.choice(numbers), random.choice((*numbers, "1", "2.5", "10 min"))
        plain = (
            f"{one} {random.choice(('<', '<=', '>', '=', '!='))} {other} {random.choice(('', '+ 1', '* 2', '/ 3 - 1'))}"
        )
        conditions.append(
            random.choice((plain, plain, f"NOT {plain}", f"({plain} OR {one} IN (1, 2))", f"abs({one}) < 3"))
        )
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    return f"PATTERN {random.choice(('SEQ', 'AND'))}({', '.join(events)}){where} WITHIN 10 min RETURN {names[0]}.x"


def _pattern(random: Random, depth: int) -> str:
    event = f"{random.choice(TYPES)} {random.choice(ALIASES)}"
    if depth == 0 or random.random() < 0.3:
        return random.choice((event, event, event, f"KL({event})", random.choice(TYPES)))
    below = [_pattern(random, depth - 1) for _ in range(random.choice((1, 2, 2, 3, 3, 6)))]
    return f"{random.choice(('SEQ', 'SEQ', 'AND', 'OR', 'NSEQ', 'NOT', 'KL'))}({', '.join(below)})"


def _condition(random: Random, depth: int) -> str:
    if depth == 0 or random.random() < 0.4:
        left, right = _expression(random, 2), _expression(random, 2)
        listed = ", ".join(_literal(random) for _ in range(random.choice((1, 3, 100))))
        plain = f"{left} {random.choice(('<', '<=', '>', '>=', '=', '!=', '=='))} {right}"
        return random.choice((plain, plain, plain, f"{left} IN ({listed})", _attribute(random)))
    below = [_condition(random, depth - 1) for _ in range(random.choice((1, 2, 3)))]
    names = ", ".join(random.sample(ALIASES, random.randrange(1, 5)))
    return random.choice(
        (
            f" {random.choice(('AND', 'OR'))} ".join(below),
            f"({below[0]})",
            f"NOT {below[0]}",
            f"FORALL (i, j) IN ({names}): i.x < j.x",
            f"FORALL (i, j) IN ({names}): ({below[0]})",
        )
    )


def _expression(random: Random, depth: int) -> str:
    if depth == 0 or random.random() < 0.5:
        return random.choice((_attribute(random), _attribute(random), _literal(random)))
    one, other = _expression(random, depth - 1), _expression(random, depth - 1)
    calls = (f"abs({one})", f"min({one}, {other})", f"sqrt({one})", "dist_km(a.lat, a.lon, b.lat, b.lon)", f"-{one}")
    return random.choice((f"({one} {random.choice('+-*/')} {other})", f"{one} {random.choice('+-*/')} {other}", *calls))


def _attribute(random: Random) -> str:
    return f"{random.choice(ALIASES)}.{random.choice(ATTRIBUTES)}"


def _literal(random: Random) -> str:
    text = random.choice(TEXTS).replace("'", "''")
    return random.choice((random.choice(NUMBERS), "5", "0.25", "'p'", f"'{text}'", "TRUE", "10 min"))


def _size(random: Random) -> int:
    return random.choice((5, 33, 63, 65, 300, 3_000, 30_000, 300_000))


def _ask(condition: str) -> str:
    return f"PATTERN SEQ(A a, B b, C c) WHERE {condition} WITHIN 10 min"


def _nested(random: Random) -> str:
    opening, closing = random.choice((("SEQ(", ")"), ("OR(", ")"), ("NOT(", ")"), ("KL(", ")"), ("AND(A a,", ")")))
    size = _size(random) // 4
    return f"PATTERN {opening * size}A a{closing * size} WITHIN 1 s"


def _deep(random: Random) -> str:
    opening, closing = random.choice(
        (("(", ")"), ("NOT ", ""), ("-", ""), ("abs(", ")"), ("min(1,", ")"), ("1+(", ")"))
    )
    size = _size(random) // 4
    return _ask(f"{opening * size}a.x{closing * size} < 1")


def _quantified(random: Random) -> str:
    """FORALL in FORALL multiplies."""
    names = ", ".join(f"a{number}" for number in range(random.choice((2, 3, 8, 32))))
    size = random.choice((1, 2, 3, 8, 100, 5_000))
    return _ask("".join(f"FORALL (i{k}, j{k}) IN ({names}): " for k in range(size)) + "i0.x < j0.x")


def _chained(random: Random) -> str:
    link = random.choice((" + 1", " < a.x", " * b.y", " AND a.x < b.x", " OR a.x = 1", " AND a.x = b.n", " - - 1"))
    return _ask("a.x" + link * (_size(random) // len(link)) + " < 1")


def _wide(random: Random) -> str:
    size = _size(random) // 8
    events = ", ".join(f"A a{number}" for number in range(size))
    conditions = " AND ".join(f"a{n}.x < a{n + 1}.x" for n in range(min(size - 1, 2_000)))
    return f"PATTERN {random.choice(('SEQ', 'AND', 'OR'))}({events}) WHERE {conditions} WITHIN 1 s"


def _alternatives(random: Random) -> str:
    ors = ", ".join(f"OR(A a{n}, B b{n}{', C c' + str(n) if n % 2 else ''})" for n in range(random.randrange(1, 17)))
    conditions = " AND ".join(f"a{random.randrange(9)}.x < {n}" for n in range(random.choice((1, 50, 2_000))))
    return f"PATTERN SEQ({ors}) WHERE {conditions} WITHIN 1 s"


def _listed(random: Random) -> str:
    values = ", ".join(random.choice((str(number), f"'{number}'")) for number in range(_size(random) // 8))
    return _ask(f"{random.choice(('a.x', 'a.x + b.x', 'NOT a.s'))} IN ({values})")


def _many_queries(random: Random) -> str:
    return "PATTERN SEQ(A a, B b) WITHIN 1 s " * (_size(random) // 33)


def _long_word(random: Random) -> str:
    word = random.choice(("a", "9", "é", "-", "'", '"', " ", "\n", "(", "--", "1e", ".", "_")) * _size(random)
    return random.choice(
        (word, f"PATTERN SEQ(A {word}) WITHIN 1 s", _ask(f"a.x < {word}"), f"PATTERN A a WITHIN {word} s")
    )


_SHAPES = (
    _nested, _deep, _quantified, _chained, _wide, _alternatives, _listed, _many_queries, _long_word,
)  # fmt: skip
