"""Versions of a scope's entities, united: each comes from the version that changed it. Pure; `Unclear` in doubt.

The outcome depends on the set of versions, never on their order. Why each rule is right: docs/batches/merge.md.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from .entities_names import EVERYTHING, mentioned
from .entity import DOC, FUTURE, Entity, Unclear, shown

MAX_LINE = 88  # of an import that is written anew
# Names whose values tell things apart, so that two equal ones are one thing.
_IDENTITY = re.compile(
    r"(^|_)(code|errno|err|port|opcode|flag|bit|mask|revision|migration|id|number|signal|slot|key)s?$", re.I
)
_LABELS = ("name", "slug", "type", "kind", "tag", "prefix", "route", "path", "url", "topic", "event", "command")
_GIVEN = re.compile(
    r"\b(?!status|exit|zip|http)(\w*?(?:port|errno|error_?code|err_?code|opcode|flag|bit|revision|migration)|code)"
    r"\s*[:=]\s*(\d\w*)",
    re.IGNORECASE,
)
_RAISED = re.compile(r"\b\w*(?:Error|Exception|Code)\(\s*(\d{2,})\b")
_TRIVIAL = ("0", "1", "-1", "0.0", "1.0")
_CODE = re.compile("function|method|class|constructor|impl_item|use_declaration")
# They take names from elsewhere. (Rust's may begin with a name of the file.)
_IMPORTS = ("import_statement", "import_from_statement", "import_declaration", "import_spec", "future_import_statement")
_TYPE = re.compile("class|interface|impl_item|record")
_ASKS = re.compile("interface|trait|abstract")
# What a class is made by (in Java, what has its name), and what rules all the members of one.
_MAKES = ("__init__", "__new__", "__call__", "constructor")
_RULES_ITS_CLASS = (
    "__slots__",
    "__getattr__",
    "__getattribute__",
    "__setattr__",
    "__match_args__",
    "__init_subclass__",
)
# Java's members are used by their names alone.
_BARE = ("method_declaration", "field_declaration", "constant_declaration")

Names = Mapping[str, Entity]


@dataclass(frozen=True, slots=True)
class _Change:
    """An entity that a version added (`was` is None), removed (`now` is None) or changed, in the scope of that name.
    `is_split`: its members are changes of their own. `inside`: the key of what it is in,
    whose names are `of`, and which is an `inside_type`."""

    scope: str
    was: Entity | None
    now: Entity | None
    is_split: bool = False
    inside: str = ""
    of: tuple[str, ...] = ()
    inside_type: str = ""

    def touched(self) -> Iterator[tuple[str, str]]:
        """The names whose meaning it changes, and how: `added`, `removed`, `changed`, or `inside` alone."""
        old, new = ({name: _origin(one, name) for name in one.binds} if one else {} for one in (self.was, self.now))
        for name in dict.fromkeys((*old, *new)):
            if name not in old or name not in new:
                yield name, "removed" if name in old else "added"
            elif self.was and self.now and (self.was.names or self.now.names):
                if old[name] != new[name]:
                    yield name, "changed"
            elif self.is_split and self.was and self.now and self.was.head == self.now.head:
                continue
            else:
                same = self.was and self.now and self.was.signature and self.was.signature == self.now.signature
                yield name, "inside" if same else "changed"

    def meaning(self, name: str) -> str:
        """Equal for two changes that give a name the same meaning."""
        if self.now is None or name not in self.now.binds:
            return "gone"
        return _origin(self.now, name) or f"{self.inside}\n{self.now.key}\n{self.now.text!r}"

    def place_of_members(self) -> tuple[str, str, tuple[str, ...], str]:
        one = self.now or self.was
        assert one is not None
        kinds = " ".join(node.type for node in ((one.node, *one.node.children) if one.node else ()))
        return f"{self.scope}/{one.scope or one.key}", f"{self.inside}/{one.key}", one.binds, kinds

    def outcome(self) -> tuple[str | None, ...]:
        """Equal for two that made the same of the same."""
        was, now = self.was, self.now
        return (self.inside, was and was.key, now and now.key, now and shown(now.text))

    def used(self) -> Counter[str]:
        """The names that it begins to use: all that it uses where it is no function or class, since it is worked out
        anew."""
        if self.now is None or self.now.node is None:
            return Counter()
        now, was = (
            mentioned(one.node, is_whole=not self.is_split) if one else Counter[str]() for one in (self.now, self.was)
        )
        node = self.now.node
        if node.type in _IMPORTS:
            return Counter()
        now.update(_derived(self.now))
        was.update(_derived(self.was))
        used = now - was if any(_CODE.search(one.type) for one in (node, *node.children)) else now
        if self.scope.startswith("/impl "):
            used[self.scope.removeprefix("/impl ")] += used["Self"]
        return used

    def built_on(self) -> Counter[str]:
        """What a class, an interface or an `impl` names before its body: its bases."""
        node = self.now.node if self.now is not None else None
        if node is None or not any(_TYPE.search(one.type) for one in (node, *node.children)):
            return Counter()
        return mentioned(node, is_whole=False)


def merged(base: Sequence[Entity], *sides: Sequence[Entity]) -> list[Entity]:
    """Each entity from the version that changed it. `Unclear` where the outcome is in doubt, each reason below."""
    old, *new = ({one.key: one for one in side} for side in (base, *sides))
    changes = [list(_changes(old, side)) for side in new]
    for ours, theirs in combinations(changes, 2):
        _require_apart(ours, theirs)
    return _united(old, new)


def _changes(old: Names, new: Names, around: _Change | None = None) -> Iterator[_Change]:
    scope, inside, of, kind = around.place_of_members() if around else ("", "", (), "")
    for key in dict.fromkeys((*old, *new)):
        was, now = old.get(key), new.get(key)
        if was is not None and now is not None and was.text == now.text and was.body == now.body:
            continue
        present = [one for one in (now, was) if one is not None]
        is_split = all(one.body for one in present)
        change = _Change(scope, was, now, is_split, inside, of, kind)
        yield change
        if is_split:
            before, after = ({one.key: one for one in each.body} if each else {} for each in (was, now))
            yield from _changes(before, after, change)


def _require_apart(ours: Sequence[_Change], theirs: Sequence[_Change]) -> None:
    """Of two versions: no name gets two meanings, none begins to use what the other one gives another meaning, and
    no two new constants are the same thing by their value."""
    ours, theirs = _alone(ours, theirs), _alone(theirs, ours)
    mine, other = _touched(ours), _touched(theirs)
    for place in mine.keys() & other.keys():
        if mine[place] != other[place]:
            raise Unclear  # one name, two meanings
    for some, others in ((mine, other), (other, mine)):
        named = {name for _, name in others}
        if ("", "export *") in some and any(name.startswith("export ") for name in named):
            raise Unclear
        if any(name == EVERYTHING for _, name in some) and named:
            raise Unclear  # who knows which names these are
    for some, others in ((ours, theirs), (theirs, ours)):
        used = sum((change.used() for change in others), Counter[str]())
        bases = sum((change.built_on() for change in others), Counter[str]())
        places = {change.scope for change in others}
        for change in some:
            for name, how in change.touched():
                if _is_used(used, change, name, how):
                    raise Unclear
                if how != "inside" and _is_built_on(change, name, used, bases):
                    raise Unclear
                if name in _RULES_ITS_CLASS and change.scope in places:
                    raise Unclear
    _require_other_values(ours, theirs)


def contradict(base: Sequence[Entity], ours: Sequence[Entity], theirs: Sequence[Entity]) -> bool:
    """Whether what is merged by lines cannot be right: both give one new name another meaning, one begins to use what
    the other one has removed, or builds on what asks for more now."""
    old, *new = ({one.key: one for one in side} for side in (base, ours, theirs))
    mine, other = (list(_changes(old, side)) for side in new)
    mine, other = _alone(mine, other), _alone(other, mine)
    added = [_new_names(side) for side in (mine, other)]
    if any(added[1].get(place, meaning) != meaning for place, meaning in added[0].items()):
        return True
    return _is_let_down(mine, other) or _is_let_down(other, mine)


def _is_let_down(some: Sequence[_Change], others: Sequence[_Change]) -> bool:
    used = sum((one.used() for one in others), Counter[str]())
    bases = sum((one.built_on() for one in others if one.was is None), Counter[str]())
    new = _new_names(some)
    for change in some:
        for name, how in change.touched():
            if how == "removed" and (change.scope, name) not in new and _is_used(used, change, name, how):
                return True
            asked = bases if _ASKS.search(change.inside_type) else Counter[str]()
            if how in ("added", "changed") and _is_built_on(change, name, used, asked):
                return True
    return False


def _new_names(changes: Sequence[_Change]) -> dict[tuple[str, str], str]:
    found = ((change, name) for change in changes for name, how in change.touched() if how == "added")
    return {(change.scope, name): change.meaning(name) for change, name in found}


def _alone(some: Sequence[_Change], others: Sequence[_Change]) -> list[_Change]:
    """Without what both made in the same way."""
    said = {one.outcome() for one in others}
    return [one for one in some if one.outcome() not in said]


def _touched(changes: Sequence[_Change]) -> dict[tuple[str, str], set[str]]:
    found: dict[tuple[str, str], set[str]] = {}
    for change in changes:
        for name, _ in change.touched():
            found.setdefault((change.scope, name), set()).add(change.meaning(name))
    return found


def _is_used(used: Counter[str], change: _Change, name: str, how: str) -> bool:
    """A new name could only have meant something else to who used it without knowing of it."""
    word = (re.findall(r"[\w$#]+", name.rpartition(" ")[2]) or [""])[0]
    if how == "inside" or name.startswith("export ") or not word:
        return False
    if not change.scope:
        is_method = " " in name
        return used[word] > 0 or (is_method and used[f".{word}"] > 0)
    if how == "added":
        return used[f"self.{word}"] > 0 or (_is_bare(change) and used[word] > 0)
    return used[word] > 0 or used[f".{word}"] > 0


def _is_built_on(change: _Change, name: str, used: Counter[str], bases: Counter[str]) -> bool:
    """A member of a class that the other one derives a new class from, or the way to make one that it makes."""
    makes = re.split(r"\W", name)[0]
    return any(bases[of] > 0 or ((makes in _MAKES or makes == of) and used[of] > 0) for of in change.of)


def _derived(one: Entity | None) -> list[str]:
    """The traits that Rust writes for a type."""
    listed = re.findall(rb"#\[derive\(([^)]*)\)\]", one.text if one else b"")
    return [word.decode() for names in listed for word in re.findall(rb"\w+", names)]


def _is_bare(change: _Change) -> bool:
    node = (change.now or change.was or Entity("", b"", b"")).node
    return node is not None and node.type in _BARE


def _require_other_values(ours: Sequence[_Change], theirs: Sequence[_Change]) -> None:
    mine, other = _constants(ours), _constants(theirs)
    for value in mine.keys() & other.keys():
        for scope, name in mine[value]:
            for another, beside in other[value]:
                if scope == another and name == beside:
                    continue
                both = _tells_apart(name) and _tells_apart(beside)
                is_constant = value not in _TRIVIAL or (name.isupper() and beside.isupper())
                if both or (scope == another and is_constant):
                    raise Unclear  # equal new literals
    if _given(ours) & _given(theirs):
        raise Unclear


def _constants(changes: Sequence[_Change]) -> dict[str, set[tuple[str, str]]]:
    found: dict[str, set[tuple[str, str]]] = {}
    for change in changes:
        if (
            change.now
            and change.now.value
            and change.now.binds
            and (not change.was or change.was.value != change.now.value)
        ):
            found.setdefault(change.now.value, set()).add((change.scope, change.now.binds[0]))
    return found


def _tells_apart(name: str) -> bool:
    last = name.rpartition(" ")[2]
    return bool(_IDENTITY.search(last)) or last.lower() in _LABELS


def _given(changes: Sequence[_Change]) -> set[str]:
    """Ports, error codes and the like that new code names."""
    found: set[str] = set()
    for change in changes:
        new, old = (_numbers(one.text if one else b"") for one in (change.now, change.was))
        found |= new - old
    return found


def _numbers(text: bytes) -> set[str]:
    said = text.decode("utf-8", "replace")
    given = {f"{name.lower()} {value}" for name, value in _GIVEN.findall(said)}
    return given | set(_RAISED.findall(said))


def _origin(one: Entity, name: str) -> str:
    """What it takes the name from, where it says so."""
    if one.frame is None or name in one.origins:
        return one.origins.get(name, "")
    told = name.rpartition(" ")[2]
    found = (spec for spec in one.names if re.split(r"\W+", spec.strip("'\"\n\t "))[-1] == told)
    return next((f"{one.frame.start}{spec}{one.frame.end}" for spec in found), "")


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
        if len(fresh) > 1 and any(one.acts for group in fresh for one in group):
            raise Unclear
        below = max(
            (side[following].lead for side in new if following is not None and following in side), default=b"", key=len
        )
        for number, group in enumerate(fresh):
            for at, one in enumerate(group):
                if one.key not in placed:
                    placed.add(one.key)
                    is_close = number == 0 or at > 0 or one.lead or one.key.startswith(("import ", "from "))
                    yield one.key, one.lead if is_close else below


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
