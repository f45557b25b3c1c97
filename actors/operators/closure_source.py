"""The compiled loops of `closure`: finding the families of new rows, and walking through their subsets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from textwrap import indent


@dataclass(frozen=True, slots=True)
class MemberChecks:
    """Conditions as source: between every two members `one` and `other`; whether `other` is a candidate after its
    neighbour `one`, whether the two decide for it, and whether `other` may be a member at all. Empty ones hold."""

    pairs: str = ""
    skips: str = ""
    decides: str = ""
    alone: str = ""


@dataclass(frozen=True, slots=True)
class GroupShape:
    """How many members a group has, and whether it is a run: each member the next one after the one before. Members
    are single `moments`, or matches of several events that last."""

    least: int = 1
    most: int | None = None
    runs: bool = False
    moments: bool = True


def _follows(checks: MemberChecks, shape: GroupShape) -> str:
    """Sets `ok` to whether `other` may follow the members chosen so far; in a run it also ends the search behind the
    time of the first candidate."""
    lines = [f"ok = {checks.alone or 'True'}"]
    neighbour = ["if depth > 0:", "    one = np.uint64(members[np.uint64(begin + picked[np.uint64(depth - 1)])])"]
    if shape.runs:
        neighbour += [
            "    place = np.uint64(depth - 1)",
            "    if low_of[other] > follows[place]:",
            "        candidate = size",
            "        continue",
            "    if low_of[other] <= high_of[one]:",
            "        candidate += 1",
            "        continue",
            f"    if not ({checks.skips or 'True'}):",
            "        candidate += 1",
            "        continue",
            "    follows[place] = low_of[other]",
        ]
    if checks.decides:
        neighbour.append(f"    ok = ok and ({checks.decides})")
    return "\n".join(lines + (neighbour if len(neighbour) > 2 else []))


def closure_source(
    identity: int,
    closed: int,
    columns: int,
    constants: Sequence[str],
    checks: MemberChecks,
    shape: GroupShape,
    outputs: Sequence[str],
    members: Sequence[str],
) -> str:
    """The module with `families` and `groups`.

    `identity` columns and `closed` groups tell families apart. `checks` are conditions on members, and `shape` says
    which groups are wanted. `outputs` and `members` are the values of the columns of a match and of its group's
    members.
    """
    ids = [f"I{n}" for n in range(identity)]
    heaps = [f"{letter}{n}" for n in range(closed) for letter in ("B", "L", "H")]
    same = [f"({name}[row] == {name}[j])" for name in ids] + [f"(L{n}[row] == L{n}[j])" for n in range(closed)]
    verify = [
        f"if same:\n    for m in range(L{n}[row]):\n"
        f"        if H{n}[B{n}[row] + m] != H{n}[B{n}[j] + m]:\n            same = False\n            break"
        for n in range(closed)
    ]
    # Without any identity all rows are one family.
    same_lines = [f"same = {' & '.join(same) or 'True'}", *verify]
    families = _FAMILIES.replace("<identity>", "".join(f"{name}, " for name in ids + heaps)).replace(
        "            <same>", indent("\n".join(same_lines), " " * 12)
    )
    arguments = [f"C{n}" for n in range(columns)] + ["floats", "integers"]
    arguments += [f"O{n}" for n in range(len(outputs))] + [f"M{n}" for n in range(len(members))]
    write = [f"O{n}[u] = {source}" for n, source in enumerate(outputs)]
    copy = [f"M{n}[v] = {source}" for n, source in enumerate(members)]
    groups = (
        _GROUPS.replace("<arguments>", ", ".join(arguments))
        .replace("    <constants>", indent("\n".join(constants) or "pass", " " * 4))
        .replace("<check>", checks.pairs or "True")
        # Members come in the order of their begins: if single events are too far, later ones are as well.
        .replace("<beyond>", "size" if shape.moments else "candidate + 1")
        .replace("            <follows>", indent(_follows(checks, shape), " " * 12))
        .replace("<least>", str(shape.least))
        .replace("<most>", str(shape.most if shape.most is not None else 2**62))
        .replace("                    <write>", indent("\n".join(write), " " * 20))
        .replace("                        <copy>", indent("\n".join(copy), " " * 24))
    )
    return f"{families}\n\n{groups}"


_FAMILIES = '''@jit
def families(
    fresh, begin, end, s_hash, previous, head, cursor, times, ordinals, arrival, current, <identity>offsets, members
):
    """Rows of every family that has a fresh row, in time order. Returns how many families and rows there are; if
    there are more rows than room, nothing else is valid."""
    mask = head.shape[0] - 1
    cur = max(cursor[0], begin)
    while cur < end:
        bucket = s_hash[cur] & mask
        previous[cur] = head[bucket]
        head[bucket] = cur
        cur += 1
    cursor[0] = cur
    room = members.shape[0]
    count = 0
    used = 0
    offsets[0] = 0
    for n in range(fresh.shape[0]):
        row = fresh[n]
        start = used
        j = head[s_hash[row] & mask]
        leads = False
        while j >= begin:
            <same>
            if same:
                if not leads:
                    if arrival[j] == current:
                        if j != row:  # another fresh row comes first in the chain and speaks for the family
                            break
                        leads = True
                if used < room:
                    members[used] = j
                used += 1
            j = previous[j]
        if not leads:
            used = start
            continue
        if used <= room:
            for k in range(start + 1, used):  # the chain runs backwards in time, so this is nearly sorted
                moving = members[k]
                place = k
                while place > start and (
                    times[members[place - 1]] > times[moving]
                    or (times[members[place - 1]] == times[moving] and ordinals[members[place - 1]] > ordinals[moving])
                ):
                    members[place] = members[place - 1]
                    place -= 1
                members[place] = moving
        count += 1
        offsets[count] = used
    return count, used
'''

# Places are unsigned where they index columns: Numba then leaves out the check for negative indices.
_GROUPS = '''@jit
def groups(state, stacks, offsets, members, window, min_ts, max_ts, marks, fresh, <arguments>):
    """Walks through the subsets of each family depth first, writing those with a fresh member, until the family list
    or the room ends; `state` and `stacks` keep the place."""
    <constants>
    picked, lows, highs, news, follows = stacks[0], stacks[1], stacks[2], stacks[3], stacks[4]
    low_of, high_of = min_ts, max_ts
    family, depth, candidate = state[0], state[1], state[2]
    count = offsets.shape[0] - 1
    room = O0.shape[0]
    member_room = M0.shape[0]
    found = 0
    used = 0
    compared = 0
    while family < count:
        begin = offsets[family]
        size = offsets[family + 1] - begin
        last_fresh = size - 1
        while last_fresh >= 0 and marks[members[begin + last_fresh]] != fresh:
            last_fresh -= 1
        while True:
            if candidate >= size or (candidate > last_fresh and (depth == 0 or news[np.uint64(depth - 1)] == 0)):
                if depth == 0:
                    break
                depth -= 1
                candidate = picked[np.uint64(depth)] + 1
                continue
            if found == room or used + depth + 1 > member_room:
                state[0], state[1], state[2] = family, depth, candidate
                return found, used, compared
            other = np.uint64(members[np.uint64(begin + candidate)])
            low = min_ts[other]
            high = max_ts[other]
            new = 1 if marks[other] == fresh else 0
            if depth > 0:
                above = np.uint64(depth - 1)
                low = min(low, lows[above])
                high = max(high, highs[above])
                new += news[above]
            compared += 1
            if high - low > window or depth >= <most>:
                candidate = <beyond>
                continue
            <follows>
            for d in range(depth if ok else 0):
                one = np.uint64(members[np.uint64(begin + picked[d])])
                if not (<check>):
                    ok = False
                    break
            if ok:
                top = np.uint64(depth)
                picked[top] = candidate
                lows[top] = low
                highs[top] = high
                news[top] = new
                follows[top] = 9223372036854775807
                depth += 1
                if new > 0 and depth >= <least>:
                    row = np.uint64(members[np.uint64(begin + picked[0])])
                    u = np.uint64(found)
                    <write>
                    for d in range(depth):
                        member = np.uint64(members[np.uint64(begin + picked[d])])
                        v = np.uint64(used + d)
                        <copy>
                    used += depth
                    found += 1
            candidate += 1
        family += 1
        candidate = 0
    state[0], state[1], state[2] = family, 0, 0
    return found, used, compared
'''
