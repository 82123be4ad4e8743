"""Changes of a scope's entities by several versions, and whether they can stand together. Pure; `Unclear` in doubt.

Why each rule is right: docs/batches/merge.md.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass

from .entities_braces import bare, impl_of
from .entities_names import EVERYTHING, mentioned
from .entities_terms import signature_of
from .entity import IMPORTS, Entity, Unclear, text_of
from .wording import as_text

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
_CODE = re.compile("function|method|class|constructor|impl_item")
# They take names from elsewhere. (Rust's may begin with a name of the file.)
_IMPORTS = ("import_statement", "import_from_statement", "import_declaration", "import_spec", "future_import_statement")
_TYPE = re.compile("class|interface|impl_item|record")
_ASKS = re.compile("interface|trait|abstract")
# What a class is made by (in Java, what has its name), and what rules all that is beside it.
_MAKES = ("__init__", "__new__", "__call__", "constructor")
_RULES_ITS_SCOPE = (
    *("__slots__", "__getattr__", "__getattribute__", "__setattr__", "__match_args__", "__init_subclass__"),
    *("pytestmark", "pytest_plugins", "setup_module", "teardown_module", "setup_function", "teardown_function"),
    *("setUp", "tearDown", "setUpClass", "tearDownClass", "setup_method", "teardown_method", "setup_class"),
    *("asyncSetUp", "asyncTearDown", "setUpModule", "tearDownModule", "TestMain"),
)
# What Python calls of an object that compares, looks up or asks for truth; else it would look at which object it is.
_IMPLIED = {"__eq__": "==", "__hash__": "==", "__ne__": "==", "__len__": "truth", "__bool__": "truth"}
# They are used by their names alone: Java's members, and what a block of tests defines.
_BARE = (
    *("method_declaration", "field_declaration", "constant_declaration", "lexical_declaration", "variable_declaration"),
    "function_declaration",
)

# The meaning of a class of which several may change members.
_MEMBERS_OF = "members of "

Names = Mapping[str, Entity]


@dataclass(frozen=True, slots=True)
class Change:
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
                if old[name] != new[name] or not (self.was.names and self.now.names):
                    yield name, "changed"
            elif self.is_split and self.was and self.now:
                yield name, "inside" if self.was.head == self.now.head else "changed"
            else:
                same = self.was and self.now and self.was.signature and self.was.signature == self.now.signature
                yield name, "inside" if same else "changed"

    def meaning(self, name: str) -> str:
        """Equal for two changes that give a name the same meaning."""
        if self.now is None or name not in self.now.binds:
            return "gone"
        if self.is_split and self.was is not None:
            return f"{_MEMBERS_OF}{self.inside}/{self.now.key}"
        return _origin(self.now, name) or f"{self.inside}\n{self.now.key}\n{self.now.text!r}"

    def place_of_members(self) -> tuple[str, str, tuple[str, ...], str]:
        one = self.now or self.was
        assert one is not None
        kinds = " ".join(node.type for node in ((one.node, *one.node.children) if one.node else ()))
        scope = self.scope if one.key == IMPORTS else f"{self.scope}/{one.scope or one.key}"
        return scope, f"{self.inside}/{one.key}", one.binds, kinds

    def outcome(self) -> tuple[str | None, ...]:
        """Equal for two that made the same of the same."""
        was, now = self.was, self.now
        return (self.inside, was and was.key, now and now.key, now and as_text(now.text))

    def used(self) -> Counter[str]:
        """The names that it begins to use: all that it uses where it is no function or class, since it is worked out
        anew."""
        node = self.now.node if self.now else None
        if node is None or node.type in _IMPORTS:
            return Counter()
        if node.type == "use_declaration":  # what a path begins with may be defined here
            return Counter(re.findall(r"use\s+(?:::)?(?:(?:self|super|crate)\s*::\s*)?(\w+)", text_of(node)))
        if self.now is not None and self.now.names:  # a list: what others say of what was in it does not matter
            known = self.was.names if self.was is not None else ()
            return Counter(word for name in self.now.names if name not in known for word in re.findall(r"^\w+", name))
        now, was = (self._mentioned(one) for one in (self.now, self.was))
        used = now - was if any(_CODE.search(one.type) for one in (node, *node.children)) else now
        if self.scope.startswith("/impl "):
            used[self.scope.removeprefix("/impl ")] += used["Self"]
        if node.type == "impl_item":
            kind, trait = impl_of(node)
            used[f"impl {bare(trait)}"] += 1
            used.subtract((kind, bare(trait)))  # its header names them, and is compared as a whole
        return used

    def _mentioned(self, one: Entity | None) -> Counter[str]:
        return mentioned(one.node, is_whole=not self.is_split) + Counter(_derived(one)) if one else Counter()

    def built_on(self) -> Counter[str]:
        """What a class, an interface or an `impl` names before its body: its bases."""
        node = self.now.node if self.now is not None else None
        if node is None or not any(_TYPE.search(one.type) for one in (node, *node.children)):
            return Counter()
        return mentioned(node, is_whole=False)


def changes_of(old: Names, new: Names, around: Change | None = None) -> Iterator[Change]:
    scope, inside, of, kind = around.place_of_members() if around else ("", "", (), "")
    for key in dict.fromkeys((*old, *new)):
        was, now = old.get(key), new.get(key)
        if was is not None and now is not None and was.text == now.text and was.body == now.body:
            continue
        present = [one for one in (now, was) if one is not None]
        is_split = all(one.body for one in present)
        change = Change(scope, was, now, is_split, inside, of, kind)
        yield change
        if is_split:
            before, after = ({one.key: one for one in each.body} if each else {} for each in (was, now))
            yield from changes_of(before, after, change)


def require_apart(ours: Sequence[Change], theirs: Sequence[Change], defined: Set[str]) -> None:
    """Of two versions: no name gets two meanings, none begins to use what the other one gives another meaning, what
    runs does not run into what the other one changes, and no two new constants are the same thing by their value.
    `defined` is what the base defines."""
    mine, other = _touched(ours), _touched(theirs)
    ours, theirs = _alone(ours, theirs), _alone(theirs, ours)
    both = mine.keys() & other.keys()
    if any(mine[place] != other[place] for place in both):
        raise Unclear  # one name, two meanings
    for some, others in ((mine, other), (other, mine)):
        named = {name for _, name in others}
        if ("", "export *") in some and any(name.startswith("export ") for name in named):
            raise Unclear
        if any(name == EVERYTHING for _, name in some) and named:
            raise Unclear  # who knows which names these are
    shared = {place for place in both if not any(meaning.startswith(_MEMBERS_OF) for meaning in mine[place])}
    for some, others in ((ours, theirs), (theirs, ours)):
        used = sum((change.used() for change in others), Counter[str]())
        bases = sum((change.built_on() for change in others), Counter[str]())
        places = {change.scope for change in others}
        for change, name, how in _differing(some, shared):
            if _is_used(used, change, name, how):
                raise Unclear
            if how != "inside" and _is_built_on(change, name, used, bases):
                raise Unclear
            if name in _RULES_ITS_SCOPE and change.scope in places:
                raise Unclear
            implied = (one.used()[_IMPLIED[name]] for one in others if one.scope == change.scope and name in _IMPLIED)
            if how == "added" and any(count > 0 for count in implied):
                raise Unclear
        acting = [one.now for one in others if one.now and one.now.acts]
        calls = {name for one in acting for name in mentioned(one.node, is_whole=not one.registers)}
        if calls & defined and any(one.was is not None and not (one.is_split and _registers(one)) for one in some):
            raise Unclear  # what runs may run what the other one has changed
    _require_other_values(ours, theirs)


def _registers(change: Change) -> bool:
    return change.now is not None and change.now.registers != ""


def contradict(base: Sequence[Entity], ours: Sequence[Entity], theirs: Sequence[Entity]) -> bool:
    """Whether what is merged by lines cannot be right: both give one new name another meaning, one begins to use what
    the other one has removed, or builds on what asks for more now."""
    old, *new = ({one.key: one for one in side} for side in (base, ours, theirs))
    mine, other = (list(changes_of(old, side)) for side in new)
    mine, other = _alone(mine, other), _alone(other, mine)
    added = [_new_names(side) for side in (mine, other)]
    if any(added[1].get(place, meaning) != meaning for place, meaning in added[0].items()):
        return True
    kept = [{name for one in side.values() for name in one.binds} for side in new]
    if _is_let_down(mine, other, kept[0]) or _is_let_down(other, mine, kept[1]):
        return True
    return bool(_identities(mine) & _identities(other))


def _is_let_down(some: Sequence[Change], others: Sequence[Change], kept: Set[str]) -> bool:
    """`kept`: the names that the file of `some` binds all the same, by another statement."""
    used = sum((one.used() for one in others), Counter[str]())
    bases = sum((one.built_on() for one in others if one.was is None), Counter[str]())
    new = _new_names(some)
    for change in some:
        for name, how in change.touched():
            is_gone = how == "removed" and (change.scope, name) not in new and (change.scope or name not in kept)
            if is_gone and _is_used(used, change, name, how):
                return True
            asked = bases if _ASKS.search(change.inside_type) and _is_asked_for(change) else Counter[str]()
            if how in ("added", "changed") and not _serves(change) and _is_built_on(change, name, used, asked):
                return True
    return False


def _serves(change: Change) -> bool:
    """Whoever called it before, may call it now."""
    nodes = [one.node for one in (change.was, change.now) if one is not None and one.node is not None]
    signatures = [signature_of(node.child_by_field_name("definition") or node, node) for node in nodes]
    return len(signatures) == 2 and signatures[1].serves(signatures[0])


def _is_asked_for(change: Change) -> bool:
    """A member of an interface or trait that those who derive from it have to write."""
    node = change.now.node if change.now is not None else None
    may = node is None or any(child.type == "?" for child in node.children)
    return not may and node is not None and node.child_by_field_name("body") is None


def _new_names(changes: Sequence[Change]) -> dict[tuple[str, str], str]:
    found = ((change, name) for change in changes for name, how in change.touched() if how == "added")
    return {(change.scope, name): change.meaning(name) for change, name in found}


def _alone(some: Sequence[Change], others: Sequence[Change]) -> list[Change]:
    """Without what both made in the same way."""
    said = {one.outcome() for one in others}
    return [one for one in some if one.outcome() not in said]


def _differing(some: Sequence[Change], shared: Set[tuple[str, str]]) -> Iterator[tuple[Change, str, str]]:
    for change in some:
        yield from ((change, name, how) for name, how in change.touched() if (change.scope, name) not in shared)


def _touched(changes: Sequence[Change]) -> dict[tuple[str, str], set[str]]:
    found: dict[tuple[str, str], set[str]] = {}
    for change in changes:
        for name, _ in change.touched():
            found.setdefault((change.scope, name), set()).add(change.meaning(name))
    return found


def _is_used(used: Counter[str], change: Change, name: str, how: str) -> bool:
    """A new name could only have meant something else to who used it without knowing of it."""
    told = name.rpartition(" ")[2]
    if re.fullmatch(r"[\w$]+(\.[\w$]+)+", told):  # a member that JavaScript gives something
        return how != "inside" and used[f".{told.rpartition('.')[2]}"] > 0
    word = (re.findall(r"[\w$#]+", told) or [""])[0]
    if how == "inside" or name.startswith("export ") or not word:
        return False
    if name.startswith("impl "):
        _, kind, trait = name.split(" ")
        return used[bare(trait)] + used[f"impl {bare(trait)}"] * (kind == "*") > 0 and (kind == "*" or used[kind] > 0)
    if not change.scope:
        is_method = " " in name
        return used[word] > 0 or (is_method and used[f".{word}"] > 0)
    if how == "added":
        return used[f"self.{word}"] > 0 or (_is_bare(change) and used[word] > 0)
    return used[word] > 0 or used[f".{word}"] > 0


def _is_built_on(change: Change, name: str, used: Counter[str], bases: Counter[str]) -> bool:
    """A member of a class that the other one derives a new class from, or the way to make one that it makes."""
    makes = re.split(r"\W", name)[0]
    return any(bases[of] > 0 or ((makes in _MAKES or makes == of) and used[of] > 0) for of in change.of)


def _derived(one: Entity) -> list[str]:
    """The traits that Rust writes for a type, and its name."""
    listed = re.findall(rb"#\[derive\(([^)]*)\)\]", one.text)
    return [word.decode() for names in listed for word in re.findall(rb"\w+", names)] + [*one.binds[: len(listed)]]


def _is_bare(change: Change) -> bool:
    node = (change.now or change.was or Entity("", b"", b"")).node
    return node is not None and node.type in _BARE


def _require_other_values(ours: Sequence[Change], theirs: Sequence[Change]) -> None:
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


def _constants(changes: Sequence[Change]) -> dict[str, set[tuple[str, str]]]:
    found: dict[str, set[tuple[str, str]]] = {}
    for change in changes:
        now, was = change.now, change.was
        if now and now.value and now.binds and (was is None or was.value != now.value):
            found.setdefault(now.value, set()).add((change.scope, now.binds[0]))
    return found


def _identities(changes: Sequence[Change]) -> set[str]:
    """Numbers that new constants stand for, by names that say so."""
    new = _constants([one for one in changes if one.was is None])
    numbers = {value: names for value, names in new.items() if value.isdigit() and value not in _TRIVIAL}
    return {value for value, names in numbers.items() if any(_IDENTITY.search(name) for _, name in names)}


def _tells_apart(name: str) -> bool:
    last = name.rpartition(" ")[2]
    return bool(_IDENTITY.search(last)) or last.lower() in _LABELS


def _given(changes: Sequence[Change]) -> set[str]:
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
