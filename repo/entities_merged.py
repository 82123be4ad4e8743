"""Three versions of a scope's entities, united: each comes from the side that changed it. Pure; `Unclear` in doubt."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from .entity import DOC, FUTURE, Entity, Unclear

MAX_LINE = 88  # of an import that is written anew


def merged(base: Sequence[Entity], ours: Sequence[Entity], theirs: Sequence[Entity]) -> list[Entity]:
    """Each entity from the side that changed it. `Unclear` where the outcome would be in doubt, each reason below."""
    old, mine, other = ({one.key: one for one in side} for side in (base, ours, theirs))
    for side in (mine, other):
        if [key for key in old if key in side] != [key for key in side if key in old]:
            raise Unclear  # somebody moved things about
    unnamed = [[one.key for one in side if not one.is_named] for side in (base, ours, theirs)]
    if unnamed[0] not in unnamed[1:] and unnamed[1] != unnamed[2]:
        raise Unclear  # both changed statements that have no name
    chosen = {key: _choose(old.get(key), mine.get(key), other.get(key)) for key in (*old, *mine, *other)}
    united = [one for key in _order(old, mine, other) if (one := chosen[key]) is not None]
    bound, *before = (Counter(name for one in side for name in one.binds) for side in (united, ours, theirs))
    if any(count > max(side[name] for side in before) for name, count in bound.items()):
        raise Unclear  # both gave a meaning to one name
    if not _has_its_top(united):
        raise Unclear  # one side's top has pushed down the other's
    return united


def _has_its_top(entities: Sequence[Entity]) -> bool:
    """The documentation, then imports from the future, then the rest."""
    places = [0 if one.key == DOC else 1 if one.key.startswith(FUTURE) else 2 for one in entities]
    return places == sorted(places)


def _choose(old: Entity | None, mine: Entity | None, other: Entity | None) -> Entity | None:
    """The side that changed it. None: it is gone."""
    texts = [one.text if one else None for one in (old, mine, other)]
    if texts[1] in (texts[0], texts[2]):
        return other
    if texts[2] == texts[0]:
        return mine
    if mine is None or other is None:
        raise Unclear  # gone on one side, changed on the other
    if mine.names and other.names and (old is None or old.names) and mine.frame == other.frame:
        return _import_of_both(old, mine, other)
    if old is not None and old.body and mine.body and other.body:
        return _class_of_both(old, mine, other)
    raise Unclear


def _import_of_both(old: Entity | None, mine: Entity, other: Entity) -> Entity:
    known = set(old.names) if old else set[str]()
    gone = known - set(other.names)
    names = [name for name in mine.names if name not in gone]
    names += [name for name in other.names if name not in known and name not in names]
    if not names:
        raise Unclear
    if list(mine.names) == sorted(mine.names, key=str.casefold):
        names.sort(key=str.casefold)
    frame = mine.frame
    assert frame is not None
    indent = mine.text[: len(mine.text) - len(mine.text.lstrip())].decode()
    line_end = "\r\n" if mine.text.endswith(b"\r\n") else "\n"
    text = f"{indent}{frame.start}{', '.join(names)}{frame.end}{line_end}"
    if len(text) > MAX_LINE or mine.text.count(b"\n") > 1:
        second = mine.text.decode().partition("\n")[2]
        step = second[: len(second) - len(second.lstrip())] or f"{indent}    "
        each = "".join(f"{step}{name},{line_end}" for name in names)
        text = f"{indent}{frame.start_of_many}{line_end}{each}{indent}{frame.end_of_many}{line_end}"
    return replace(mine, text=text.encode(), names=tuple(names), binds=tuple(name.split()[-1] for name in names))


def _class_of_both(old: Entity, mine: Entity, other: Entity) -> Entity:
    head = _side([old.head, mine.head, other.head])
    tail = _side([old.tail, mine.tail, other.tail])
    body = merged(old.body, mine.body, other.body)
    return replace(mine, head=head, body=tuple(body), tail=tail, text=head + joined(body) + tail)


def _side(texts: Sequence[bytes]) -> bytes:
    """The text of the side that changed it."""
    if texts[1] != texts[0] != texts[2] != texts[1]:
        raise Unclear
    return texts[2] if texts[1] == texts[0] else texts[1]


def _order(old: dict[str, Entity], mine: dict[str, Entity], other: dict[str, Entity]) -> list[str]:
    """Ours; what is theirs alone comes behind what it stood behind, and behind what is ours alone at that place."""
    order = list(mine)
    last: str | None = None
    for key in other:
        if key not in mine and key not in old:
            at = order.index(last) + 1 if last is not None else 0
            while at < len(order) and last is not None and order[at] not in old and order[at] not in other:
                at += 1
            order.insert(at, key)
        if key in order:
            last = key
    return order


def joined(entities: Sequence[Entity]) -> bytes:
    return b"".join(one.lead + one.text for one in entities)


def shape(entities: Sequence[Entity]) -> list[tuple[bytes, list[bytes]]]:
    """What must be found again in what was put together. (Comments may change their statement at the end of a body.)"""
    return [(one.text, [inner.text for inner in one.body]) for one in entities if one.text]
