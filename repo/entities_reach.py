"""New uses in one file of what another file no longer has, or has on other terms. Pure, on syntax trees."""

from __future__ import annotations

import posixpath
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from tree_sitter import Node

from .entities_clash import lets_down
from .entities_seen import Place, Seen, seen
from .entity import Entity, text_of
from .merge_words import reaches, stem_of

_IMPORTS = ("import_statement", "import_from_statement", "export_statement", "lexical_declaration", "use_declaration")


def is_let_down(
    base: Node,
    ours: Node,
    before: Node,
    after: Node,
    was: Sequence[Entity],
    now: Sequence[Entity],
    path: str,
    file: str,
) -> bool:
    """`base` became `ours`, with the entities `was` and `now`; meanwhile another file, `before`, became `after`."""
    old, mine, earlier, later = (seen(root) for root in (base, ours, before, after))
    taken = _taken(after, path, file)
    more = {place: count - earlier.used[place] for place, count in later.used.items() if count > earlier.used[place]}
    for name in _names(was) - _names(now):
        kind, _, word = name.rpartition(" ")
        if kind == "export" and word == "default":
            if _takes_default(after, path) and not _takes_default(before, path):
                return True
        elif _is_taken(word, taken) and (more.get(("x", "", word)) or more.get((".", "", word))):
            is_theirs = ("x", "", word) in later.defined and ("x", "", word) not in earlier.defined
            if not is_theirs or _is_imported(later, word):
                return True
    shut = {name for name in old.open - mine.open if ("x", "", name) in mine.defined or name in mine.signatures}
    if any(more.get((kind, "", name)) and _is_taken(name, taken) for name in shut for kind in ("x", ".")):
        return True
    return lets_down(old, mine, _as_if_here(old, earlier, later, more, taken))


def _as_if_here(old: Seen, earlier: Seen, later: Seen, more: dict[Place, int], taken: set[str] | None) -> Seen:
    """The other file's new uses, as if they stood in this one. Members count where it names a class of this file."""
    classes = {name for (kind, _, name), said in old.defined.items() if kind == "x" and "class" in said}
    named = any(later.used["x", "", name] for name in classes)
    used = Counter(old.used)
    for (kind, where, name), count in more.items():
        if kind in (".", "self.") and (".", "", name) in later.defined:  # its own objects have it, too
            count -= more.get(("self.", "", name), 0)
        is_asked_of_it = _is_taken(name, taken) and ("x", "", name) not in later.used
        is_plain = kind in ("x", "type", "make", "base", "::") and not where and _is_taken(name, taken)
        if is_plain or (kind in (".", "self.") and (named or is_asked_of_it)):
            used[kind, where, name] += count
    names_all = Counter(old.names_all)
    names_all.update({name: later.names_all[name] - earlier.names_all[name] for name in later.names_all})
    return replace(Seen(), defined=old.defined, used=used, names_all=names_all)


def _names(entities: Sequence[Entity]) -> set[str]:
    """What others may import: in JavaScript what is exported, elsewhere all that is bound."""
    bound = {name for one in entities if not _is_private(one.node) for name in one.binds}
    exported = {name for name in bound if name.startswith("export ")}
    is_script = any(one.node is not None and one.node.type == "export_statement" for one in entities) or exported
    return exported if is_script else bound


def _is_private(node: Node | None) -> bool:
    """An import of Go, Java or Rust, which nobody can import from here."""
    imports = ("import_declaration", "use_declaration", "extern_crate_declaration")
    return node is not None and node.type in imports and not text_of(node).startswith("pub")


def _is_taken(name: str, taken: set[str] | None) -> bool:
    return taken is None or name in taken


def _is_imported(later: Seen, word: str) -> bool:
    return any(said.startswith("import ") for said in later.defined.get(("x", "", word), ()))


def _taken(root: Node, path: str, file: str) -> set[str] | None:
    """The names that a file takes from a module; of a module as a whole, all that are asked of anything. None: nobody
    can tell, since all names of a folder are seen without being taken."""
    if path.endswith((".go", ".java", ".rs", "conftest.py")):
        return None
    found: set[str] = set()
    for statement in _statements(root):
        said = text_of(statement)
        lines = [" ".join(said.split())]
        if not reaches("\n".join(lines).encode(), path, file):
            continue
        found.update(re.findall(r"\w+", said))
        if (
            not re.search(r"\bfrom\b.*\bimport\b|\{", said)
            or re.search(rf"\b{re.escape(posixpath.basename(stem_of(path)))}\b", said.rpartition("import")[2])
            or "*" in said
        ):
            found.update(name for kind, _, name in seen(root).used if kind == ".")
    return found


def _statements(root: Node) -> Iterator[Node]:
    for one in root.named_children:
        if one.type in _IMPORTS or (one.type == "variable_declaration" and "require" in text_of(one)):
            yield one


def _takes_default(root: Node, path: str) -> bool:
    name = posixpath.basename(stem_of(path))
    for one in _statements(root):
        found = re.match(r"import\s+(\w+)\b(?!\s*\{)[^'\"]*from\s*['\"]([^'\"]+)['\"]", text_of(one))
        if found and posixpath.basename(stem_of(found[2])) == name:
            return True
    return False
