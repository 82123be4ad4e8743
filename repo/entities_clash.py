"""Contradictions between versions that stand below the names of entities. Pure.

Why each rule is right: docs/batches/merge.md. In doubt it cannot.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import permutations

from tree_sitter import Node

from .entities_seen import Place, Seen, seen

# Every list, text, map and promise has them: who calls one of an object that nobody knows may well mean that.
_EVERYWHERE = frozenset(
    name for kind in (dict, list, str, set, bytes) for name in dir(kind) if not name.startswith("__")
) | {
    "then",
    "map",
    "filter",
    "forEach",
    "push",
    "length",
    "toString",
    "equals",
    "hashCode",
    "unwrap",
    "len",
    "iter",
    "clone",
    "read",
    "write",
    "close",
    "size",
    "contains",
    "add",
    "next",
    "name",
    "value",
    "key",
    "type",
    "id",
    "run",
    "start",
    "stop",
    "send",
    "call",
    "string",
    "error",
}
_FOR_PEOPLE = frozenset({"__repr__", "__str__", "toString"})
_WHOLE = re.compile(r"\b(\w*Enum|\w*Flag|NamedTuple|TypedDict|dataclass|define|frozen|attrs)\b")


def _is_everywhere(name: str) -> bool:
    """Go writes them with a capital."""
    return name in _EVERYWHERE or f"{name[:1].lower()}{name[1:]}" in _EVERYWHERE


def clash(base: Node, *sides: Node, merged: Node) -> bool:
    """`merged` is what became of all sides, by lines or by entities."""
    if merged.has_error:
        return True  # none of them has one
    old, both = seen(base), seen(merged)
    known = [seen(side) for side in sides]
    if both.twice - old.twice.union(*(side.twice for side in known)):
        return True
    for at, count in both.bound.items():
        counts = [side.bound[at] for side in known]
        if not old.bound[at] and sum(map(bool, counts)) > 1 and count > max(counts):
            return True
    pairs = list(permutations(known, 2))
    return any(lets_down(old, some, others) or _overrides(old, some, others, both) for some, others in pairs)


def _overrides(old: Seen, some: Seen, others: Seen, both: Seen) -> bool:
    """A new member of a class, and one of its name in what is derived from that: neither side knew of the other's."""
    for name, members in some.members.items():
        new = members - old.members.get(name, set()) - _FOR_PEOPLE if name in old.heads else set[str]()
        above = both.bases(name) & others.members.keys() if new else set[str]()
        if any(new & (others.members[base] - old.members.get(base, set())) for base in above):
            return True
    return False


def lets_down(old: Seen, some: Seen, others: Seen, *, from_elsewhere: bool = False) -> bool:
    """The others, of this file or `from_elsewhere`, begin to use what these removed, or gave another meaning."""
    return any(
        (
            *_gone(old, some, others),
            *_changed(old, some, others, from_elsewhere),
            *_derived(old, some, others),
            *_misses_one(old, some, others),
        )
    )


def _more(kind: str, where: str, name: str, old: Seen, new: Seen, *, but: str = "") -> bool:
    """`but`: uses of this kind do not count."""
    before, now = (one.used[kind, where, name] - one.used[but, where, name] for one in (old, new))
    return now > before


def _gone(old: Seen, some: Seen, others: Seen) -> Iterator[bool]:
    for place, said in old.defined.items():
        kind, where, name = place
        if name == "_" or (kind == "x" and not where):
            continue
        lost = said - some.defined.get(place, set())
        if not lost or not _more(kind, where, name, old, others):
            continue
        if others.defined.get(place, set()) - said and place not in some.defined:
            continue  # they give it a meaning of their own
        if place not in some.defined:
            is_local_to_them = kind == "x" and _binds_more(place, old, others)
            yield not some.used[place] and not is_local_to_them
        elif kind == ".":
            yield not _is_everywhere(name) or _more("self.", "", name, old, others)


def _binds_more(place: Place, old: Seen, others: Seen) -> bool:
    at = place[1:]
    return others.bound[at] > old.bound[at]


def _changed(old: Seen, some: Seen, others: Seen, from_elsewhere: bool) -> Iterator[bool]:
    """A signature under which the others call, an import that stands for something else."""
    for name, signatures in old.signatures.items():
        now = some.signatures.get(name, set())
        new = now - signatures
        if any(not any(one.serves(was) for one in new) for was in signatures - now) and new:
            is_more = all(one.is_more_of(was) for one in new for was in signatures)
            kind, but = ("make", "") if is_more else ("x", "type")
            if _more(kind, "", name, old, others, but=but) or _more("::", "", name, old, others):
                yield True
            before, after = ({field for one in said for field, _ in one.parameters} for said in (signatures, now))
            if _more("type", "", name, old, others) and any(
                _more(".", "", field, old, others) for field in before - after
            ):
                yield True
            if _more("self.", "", name, old, others):
                yield True
            is_reached = from_elsewhere or (".", "", name) in old.defined  # a function of this file is no member here
            if is_reached and not _is_everywhere(name) and _more(".", "", name, old, others):
                yield True
    for (kind, where, name), said in old.defined.items():
        if kind == "x" and not where and any(one.startswith("import ") for one in said):
            now = some.defined.get((kind, where, name), set())
            yield bool(now) and bool(said - now) and _more("x", "", name, old, others)


def _derived(old: Seen, some: Seen, others: Seen) -> Iterator[bool]:
    for name, (head, body) in old.heads.items():
        now, theirs = some.heads.get(name), others.heads.get(name)
        if now is not None and now[0] != head:
            yield _more("base", "", name, old, others) or _more("this", "", name, old, others)
            yield "abstract" in now[0] and "abstract" not in head and _more("make", "", name, old, others)
            yield theirs is not None and theirs[1] != body and _WHOLE.search(f"{head} {now[0]}") is not None
    for name, asked in some.asks.items():
        yield (
            name in (old.asks.keys() | old.heads.keys())
            and bool(asked - old.asks.get(name, set()))
            and _more("base", "", name, old, others)
        )
    for name, slots in some.slots.items():
        new = {place[2] for place, said in others.defined.items() if said == {"attribute"} and place not in old.defined}
        yield slots != old.slots.get(name) and any(not re.search(rf"['\"]{word}['\"]", slots) for word in new)


def _misses_one(old: Seen, some: Seen, others: Seen) -> Iterator[bool]:
    """A new variant beside new code that names all of them, or a new field beside code that gives all of them."""
    for name, parts in old.parts.items():
        if some.parts.get(name, parts) != parts:
            yield others.names_all[name] > old.names_all[name]
