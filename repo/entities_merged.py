"""Versions of a scope's entities, united: each comes from the version that changed it. Pure; `Unclear` in doubt.

The outcome depends on the set of versions, never on their order. Why each rule is right: docs/batches/merge.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations

from .entities_apart import Names, changes_of, require_apart
from .entities_twice import may_change_places
from .entity import DOC, FUTURE, Entity, Unclear

MAX_LINE = 88  # of an import that is written anew


def merged(base: Sequence[Entity], *sides: Sequence[Entity]) -> list[Entity]:
    """Each entity from the version that changed it. `Unclear` where the outcome is in doubt, each reason below."""
    old, *new = ({one.key: one for one in side} for side in (base, *sides))
    changes = [list(changes_of(old, side)) for side in new]
    defined = {name for one in base for name in one.binds if one.signature}
    for ours, theirs in combinations(changes, 2):
        require_apart(ours, theirs, defined)
    return _united(old, new)


def _united(old: Names, new: Sequence[Names]) -> list[Entity]:
    for side in new:
        if [key for key in old if key in side] != [key for key in side if key in old]:
            raise Unclear  # somebody moved things about
    unnamed = [tuple(key for key, one in side.items() if not one.is_named) for side in (old, *new)]
    if len({keys for keys in unnamed if keys != unnamed[0]}) > 1:
        raise Unclear  # several changed statements that have no name
    chosen = {
        key: _choose(old.get(key), new, key) for key in dict.fromkeys((*old, *(key for side in new for key in side)))
    }
    united = [replace(one, lead=lead) for key, lead in _order(old, new) if (one := chosen[key]) is not None]
    for side in new:
        placed = [one.key for one in united if one.key in side]
        if placed != [key for key in side if chosen[key] is not None]:
            raise Unclear  # somebody's things would stand in another order than theirs
    if not _has_its_top(united):
        raise Unclear  # one side's top has pushed down the other's
    return united


def _has_its_top(entities: Sequence[Entity]) -> bool:
    """The documentation, then imports from the future, then the rest."""
    places = [0 if one.key == DOC else 1 if one.key.startswith(FUTURE) else 2 for one in entities]
    return places == sorted(places)


def _choose(old: Entity | None, new: Sequence[Names], key: str) -> Entity | None:
    """What those made of it who changed it. None: it is gone."""
    found = [side.get(key) for side in new]
    changed = {one.text if one else None: one for one in found if (one and one.text) != (old and old.text)}
    if len(changed) <= 1:
        return next(iter(changed.values()), old) if changed else old
    several = [one for one in changed.values() if one is not None]
    if len(several) < len(changed):
        raise Unclear  # gone on one side, changed on the other
    several.sort(key=lambda one: one.text)
    first = several[0]
    if all(one.names and one.frame == first.frame for one in several) and (old is None or old.names):
        return _list_of_all(old, several)
    if old is not None and old.body and all(one.body for one in several):
        return _class_of_all(old, several)
    raise Unclear


def _list_of_all(old: Entity | None, several: Sequence[Entity]) -> Entity:
    """The names that were there and that nobody removed, and all that somebody added."""
    known = old.names if old else ()
    names = [name for name in known if all(name in one.names for one in several)]
    added = {name for one in several for name in one.names if name not in known}
    if not names and not added:
        raise Unclear
    names += sorted(added, key=lambda name: (name.casefold(), name))
    if list(known) == sorted(known, key=str.casefold):
        names.sort(key=lambda name: (name.casefold(), name))
    first = several[0]
    frame = first.frame
    assert frame is not None
    indent = first.text[: len(first.text) - len(first.text.lstrip())].decode()
    line_end = "\r\n" if first.text.endswith(b"\r\n") else "\n"
    text = f"{indent}{frame.start}{', '.join(names)}{frame.end}{line_end}"
    spread = next((one.text for one in (*(filter(None, [old])), *several) if one.text.count(b"\n") > 1), b"")
    if len(text) > MAX_LINE or spread:
        second = spread.decode().partition("\n")[2]
        step = second[: len(second) - len(second.lstrip())] or f"{indent}    "
        each = "".join(f"{step}{name},{line_end}" for name in names)
        text = f"{indent}{frame.start_of_many}{line_end}{each}{indent}{frame.end_of_many}{line_end}"
    return replace(first, text=text.encode(), names=tuple(names))


def _class_of_all(old: Entity, several: Sequence[Entity]) -> Entity:
    head = _side(old.head, [one.head for one in several])
    tail = _side(old.tail, [one.tail for one in several])
    body = _united({one.key: one for one in old.body}, [{one.key: one for one in each.body} for each in several])
    return replace(several[0], head=head, body=tuple(body), tail=tail, text=head + joined(body) + tail)


def _side(old: bytes, several: Sequence[bytes]) -> bytes:
    """The text of those who changed it."""
    changed = {text for text in several if text != old}
    if len(changed) > 1:
        raise Unclear
    return changed.pop() if changed else old


def _order(old: Names, new: Sequence[Names]) -> Iterator[tuple[str, bytes]]:
    """Keys and the blank lines before each. What is new stays behind what it stood behind; of several who put something
    at one place, the order is that of their first keys, and what acts has no place beside others."""
    places = [_places(old, side) for side in new]
    placed: set[str] = set()
    anchors = [None, *old]
    for anchor, following in zip(anchors, [*anchors[1:], None], strict=True):
        if anchor is not None:
            yield anchor, _lead(old[anchor].lead, [side[anchor].lead for side in new if anchor in side])
        groups = {tuple(one.key for one in group): group for at in places if (group := at.get(anchor))}
        fresh = [groups[keys] for keys in sorted(groups, key=lambda keys: [(key.casefold(), key) for key in keys])]
        for some, others in combinations(fresh, 2):
            if any(not _may_change_places(one, other) for one in some for other in others):
                raise Unclear
        below = _lead(b"", [side[following].lead for side in new if following is not None and following in side])
        for number, group in enumerate(fresh):
            for at, one in enumerate(group):
                if one.key not in placed:
                    placed.add(one.key)
                    lead = _lead(b"", [side[one.key].lead for side in new if one.key in side])
                    is_line = one.text.count(b"\n") == 1 and (anchor is None or old[anchor].text.count(b"\n") == 1)
                    is_import = one.key.startswith(("import ", "from "))
                    is_close = number == 0 or at > 0 or lead or is_line or is_import
                    yield one.key, lead if is_close else below


def _may_change_places(one: Entity, other: Entity) -> bool:
    if any(each.acts and not each.registers for each in (one, other)):
        return False
    return not (one.acts and other.acts) or may_change_places(one.registers, other.registers)


def _places(old: Names, side: Names) -> dict[str | None, list[Entity]]:
    """What a version has put behind which of those that were there."""
    found: dict[str | None, list[Entity]] = {}
    last: str | None = None
    for key, one in side.items():
        if key in old:
            last = key
        else:
            found.setdefault(last, []).append(one)
    return found


def _lead(old: bytes, several: Sequence[bytes]) -> bytes:
    changed = {text for text in several if text != old}
    return max(changed, key=lambda text: (len(text), text)) if changed else old


def joined(entities: Sequence[Entity]) -> bytes:
    return b"".join(one.lead + one.text for one in entities)


def shape(entities: Sequence[Entity]) -> list[tuple[bytes, list[bytes]]]:
    """What must be found again in what was put together. (Comments may change their statement at the end of a body.)"""
    return [(one.text, [inner.text for inner in one.body]) for one in entities if one.text]
