"""Data and settings: what a file may say once, and names that it defines and uses. By formats, no language.

Pure, on text. Where two versions that git merges by lines say one thing twice, or one uses what the other one has taken
away, they cannot both stand. Why each rule is right: docs/batches/merge.md.
"""

from __future__ import annotations

import json
import posixpath
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import zip_longest
from typing import Any, cast

import yaml

from . import data_order, data_pages
from .bounds import answer_questions
from .data_said import Key, Said, differing, more_than_once
from .syntaxes import CONTRADICTION

_ITEM = ("name", "id", "alert")  # by one of these an item of a list is known


class Broken(Exception):
    """No such format."""


def contradict(base: bytes, ours: bytes, theirs: bytes, merged: bytes, form: str) -> bool:
    """Whether what git merged says what neither version says: a key twice, or a name that is gone."""
    read = FORMS[form]
    try:
        old, mine, other = (read(text.decode()) for text in (base, ours, theirs))
    except (Broken, UnicodeDecodeError, RecursionError):
        return False  # nobody can tell
    try:
        both = read(merged.decode())
    except (Broken, UnicodeDecodeError, RecursionError):
        return True
    if both.once - old.once - mine.once - other.once:
        return True
    return _is_let_down(old, mine, other) or _is_let_down(old, other, mine)


def _is_let_down(old: Said, some: Said, others: Said) -> bool:
    gone = old.defined - some.defined
    return any(others.used[name] > old.used[name] and not some.used[name] for name in gone)


def form_of(path: str) -> str | None:
    """What its name says of a file's format.

    >>> form_of("app/package.json"), form_of("Dockerfile.dev"), form_of("requirements-dev.txt"), form_of("notes.txt")
    ('json', 'docker', 'requirements', None)
    """
    name = posixpath.basename(path)
    return next((form for form, pattern in _NAMES.items() if pattern.fullmatch(name)), None)


_NAMES = {
    form: re.compile(pattern, re.IGNORECASE)
    for form, pattern in {
        "toml": r".*\.toml|(cargo|poetry|uv|pdm)\.lock|pipfile",
        "json": r".*\.(json|webmanifest|arb)",
        "yaml": r".*\.ya?ml",
        "sections": r".*\.(ini|cfg)|\.flake8|\.coveragerc|\.pylintrc|\.npmrc",
        "lines": r"\.env(\..*)?|.*\.(env|properties|strings|ftl)",
        "docker": r"(.*\.)?(docker|container)file(\..*)?",
        "make": r"(gnu)?makefile(\..*)?|.*\.mk",
        "sql": r".*\.(sql|ddl)",
        "patterns": r"codeowners|\.gitattributes|\.\w+ignore",
        "changes": r"(changelog|changes|history|news|releases)(\.\w+)?",
        "messages": r".*\.pot?",
        "proto": r".*\.proto",
        "graphql": r".*\.(graphqls?|gql)",
        "requirements": r"(.*[-_.])?(requirements|constraints)([-_.].*)?\.(txt|in)",
        "gomod": r"go\.mod",
        "blocks": r".*\.tf",
        "shell": r".*\.(sh|bash)",
        "styles": r".*\.(css|scss|less)",
        "page": r".*\.(html?|jinja2?|vue)",
        "prose": r".*\.(md|markdown)",
    }.items()
}


def _toml(text: str) -> Said:
    try:
        told = tomllib.loads(text)
    except tomllib.TOMLDecodeError as e:
        raise Broken from e
    said = Said()
    for place, value in _walk(told):
        if isinstance(value, list):
            listed = cast(list[object], value)
            packages = (_package(one) for one in listed if isinstance(one, str))
            said.once |= more_than_once((*place, one) for one in packages if one)
            tables = [cast(dict[str, object], one) for one in listed if isinstance(one, dict)]
            named = ((*place, str(one["name"]), str(one.get("version"))) for one in tables if "name" in one)
            said.once |= more_than_once(named)
        if isinstance(value, str):
            said.used.update(re.findall(r"\[([\w.,-]+)\]", value))
        if place[-2:-1] in (("optional-dependencies",), ("extras",), ("dependency-groups",), ("features",)):
            said.defined.add(place[-1])
        if place[-1:] == ("include-group",) and isinstance(value, str):
            said.used[value] += 1
    return said


def _walk(value: object, place: Key = ()) -> Iterator[tuple[Key, object]]:
    yield place, value
    if isinstance(value, dict):
        for key, inner in cast(dict[str, object], value).items():
            yield from _walk(inner, (*place, key))
    elif isinstance(value, list):
        for inner in cast(list[object], value):
            yield from _walk(inner, (*place, "*"))


def _package(requirement: str) -> str:
    """Its name, as registries compare them; nothing where no version is asked for and it may be any text."""
    found = re.match(r"\s*([A-Za-z0-9][\w.-]*)\s*(\[[^\]]*\])?\s*(===?|[<>~!]=?|@|;)", requirement)
    return re.sub(r"[-_.]+", "-", found[1]).lower() + (found[2] or "") if found else ""


def _json(text: str) -> Said:
    said = Said()

    def pairs(read: list[tuple[str, object]]) -> dict[str, object]:
        said.once.update(more_than_once((key,) for key, _ in read))
        return dict(read)

    try:
        told = cast(dict[str, object] | None, json.loads(text, object_pairs_hook=pairs))
    except ValueError as e:
        raise Broken from e
    for place, value in _walk(told):
        listed = cast(list[object], value) if isinstance(value, list) else []
        tables = [cast(dict[str, object], one) for one in listed if isinstance(one, dict)]
        said.once |= differing((f"{place} {key} {one[key]}", str(one)) for one in tables for key in _ITEM if key in one)
    if isinstance(told, dict) and isinstance(told.get("scripts"), dict):
        scripts = cast(dict[str, object], told["scripts"])
        said.defined.update(scripts)
        for value in scripts.values():
            said.used.update(
                re.findall(r"(?:npm run|npm-run-all|run-[sp]|yarn(?: run)?|pnpm(?: run)?)\s+([\w:.-]+)", str(value))
            )
    return said


def _yaml(text: str) -> Said:
    said = Said()
    try:
        whole: Any = yaml  # its stubs say nothing of what it composes
        waiting: list[tuple[Any, Key]] = [(one, ()) for one in whole.compose_all(text, yaml.SafeLoader) if one]
    except yaml.YAMLError as e:
        raise Broken from e
    ports: list[Key] = []
    reached = set[int]()
    while waiting:
        node, place = waiting.pop()
        if id(node) in reached:  # by an alias
            continue
        reached.add(id(node))
        if isinstance(node, yaml.MappingNode):
            keys = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode) and key.value != "<<"]
            said.once |= more_than_once((*place, key) for key in keys)
            said.defined.update(keys if len(place) <= 2 else ())
            waiting += [(value, (*place, str(key.value))) for key, value in node.value]
        elif isinstance(node, yaml.SequenceNode):
            said.once |= differing((f"{place} {name}", text) for name, text in _items(node, text))
            waiting += [(one, place) for one in node.value]
        elif isinstance(node, yaml.ScalarNode):
            said.used[node.value] += 1
            said.used.update(re.findall(r"\bsteps\.[\w-]+", node.value))
            said.defined.update([f"steps.{node.value}"] if place[-1:] == ("id",) else [])
            if place[-1:] in (("nodePort",), ("hostPort",)):
                ports.append(("port of the machine", node.value, "tcp"))
            found = re.fullmatch(r"(?:[\d.]+:)?(\d+):\d+(?:/(\w+))?", node.value)
            if found and place[-1:] == ("ports",):
                ports.append(("port of the machine", found[1], found[2] or "tcp"))
    said.once |= more_than_once(ports)
    return said


def _items(listed: Any, text: str) -> Iterator[tuple[str, str]]:
    """What a list holds by its name, each with all that is said of it."""
    for one in listed.value:
        for key, value in one.value if isinstance(one, yaml.MappingNode) else ():
            if key.value in _ITEM and isinstance(value, yaml.ScalarNode):
                yield f"{key.value} {value.value}", " ".join(text[one.start_mark.index : one.end_mark.index].split())


def _sections(text: str) -> Said:
    keys: list[Key] = []
    section = ""
    for line in text.splitlines():
        if found := re.match(r"\[(.+)\]\s*$", line):
            section = found[1]
            keys.append((section,))
        elif found := re.match(r"([\w.-]+)\s*[=:]", line):
            keys.append((section, found[1]))
    return Said(more_than_once(keys))


def _lines(text: str) -> Said:
    found = re.findall(r"^\s*(?:export\s+)?(\"?[\w.$-]+\"?)\s*[=:]\s*(.*)$", text, re.MULTILINE)
    return Said(differing(found))


def _make(text: str) -> Said:
    said = Said()
    keys: list[Key] = []
    lines = text.splitlines()
    for line, below in zip_longest(lines, lines[1:], fillvalue=""):
        if found := re.match(r"(?:export\s+)?([\w.-]+)\s*(?::|::|\?)?=", line):
            said.defined.add(found[1])
            keys += [("variable", found[1])]
        elif found := re.match(r"([\w./ %-]+?)\s*:(?![:=])(.*)", line):
            targets = found[1].split()
            said.defined.update(targets)
            if below.startswith("\t"):
                keys += [("target", target) for target in targets if not target.startswith(".")]
            said.used.update(re.findall(r"[\w./-]+", found[2]))
        said.used.update(re.findall(r"\$[({](\w+)", line))
        said.used.update(re.findall(r"\$\(MAKE\)\s+([\w-]+)", line))
    return Said(more_than_once(keys), said.defined, said.used)


def _sql(text: str) -> Said:
    text = re.sub(r"--.*", "", text)
    create = r"\bCREATE\s+(?:OR\s+REPLACE\s+|UNIQUE\s+|TEMP(?:ORARY)?\s+)*(TABLE|VIEW|INDEX|TYPE|SEQUENCE|FUNCTION)"
    made = re.findall(rf"{create}\s+(?:IF\s+NOT\s+EXISTS\s+)?([\w.\"`]+)", text, re.IGNORECASE)
    keys: list[Key] = [(kind.upper(), name.strip('"`').lower()) for kind, name in made if kind.upper() != "FUNCTION"]
    tables = re.findall(r"\bCREATE\s+TABLE\s+(?:IF\s+NOT\s+EXISTS\s+)?([\w.\"`]+)\s*\(([^;]*?)\n\s*\)", text, re.I)
    for table, body in tables:
        columns = re.findall(r"^\s*[\"`]?(\w+)[\"`]?\s+\w", body, re.MULTILINE)
        ruled = ("primary", "foreign", "unique", "constraint", "check", "key", "index", "references", "on")
        keys += [("column", table.lower(), one.lower()) for one in columns if one.lower() not in ruled]
    added = re.findall(r"\bALTER\s+TABLE\s+([\w.\"`]+)\s+ADD\s+(?:COLUMN\s+)?(\w+)", text, re.IGNORECASE)
    keys += [("column", table.lower(), one.lower()) for table, one in added]
    words = Counter(word.lower() for word in re.findall(r"\w+", text))
    named = [key[-1] for key in keys if key[0] == "column"]
    words.subtract(Counter(named))
    defined = set(named) | {name.strip('"`').lower() for _, name in made}
    words.subtract(Counter({name.strip('"`').lower() for _, name in made}))
    return Said(more_than_once(keys), defined, +words)


def _changes(text: str) -> Said:
    return Said(more_than_once((one,) for one in re.findall(r"^##? *\[?v?(\d+\.\d[\w.+-]*)", text, re.MULTILINE)))


def _messages(text: str) -> Said:
    found = re.findall(r'^((?:msgctxt\s+".*"\n)?msgid\s+(?:".*"\n)+)', text, re.MULTILINE)
    return Said(more_than_once((one,) for one in found))


def _braces(text: str, opens: str, member: str) -> tuple[list[Key], list[tuple[str, str]]]:
    """The blocks of a text, and their members, each with its block's name."""
    blocks: list[Key] = []
    members: list[tuple[str, str]] = []
    path: list[str] = []
    for line in re.sub(r"//.*|#.*|\"\"\".*?\"\"\"", "", text).splitlines():
        if found := re.match(opens, line):
            blocks.append((*path, found[1], found[2]))
            path.append(found[2])
            if "}" in line:
                path.pop()
        elif "{" in line and "}" not in line:
            path.append(line.strip())
        elif line.strip().startswith("}"):
            del path[-1:]
        elif path and (found := re.match(member, line)):
            members.append(("/".join(path), line))
    return blocks, members


def _proto(text: str) -> Said:
    blocks, members = _braces(text, r"\s*(message|enum|service|extend)\s+([\w.]+)\s*\{", r"\s*\S.*=\s*-?\d+")
    keys = list(blocks)
    for place, line in members:
        if found := re.search(r"(\w+)\s*=\s*(-?\d+)\s*[;\[]", line):
            inside = place.partition("/oneof")[0]
            keys += [(inside, "name", found[1]), (inside, "number", found[2])]
    words = Counter(re.findall(r"\w+", re.sub(r"\b(message|enum|service)\s+\w+", "", text)))
    return Said(more_than_once(keys), {block[-1] for block in blocks}, words)


def _graphql(text: str) -> Said:
    opens = r"\s*(type|input|interface|enum)\s+(\w+)(?:\s+implements[^{]*)?[^{]*\{"
    blocks, members = _braces(text, opens, r"\s*\w+")
    keys = list(blocks)
    keys += [(place, found[1]) for place, line in members if (found := re.match(r"\s*(\w+)\s*(?:[:(@]|$)", line))]
    words = Counter(re.findall(r"\w+", re.sub(r"\b(type|input|interface|enum|union|scalar)\s+\w+", "", text)))
    return Said(more_than_once(keys), {block[-1] for block in blocks}, words)


def _requirements(text: str) -> Said:
    lines = (line.partition("#")[0].strip() for line in text.splitlines())
    names = (re.match(r"([A-Za-z0-9][\w.-]*)", line) for line in lines if ";" not in line)
    return Said(more_than_once((re.sub(r"[-_.]+", "-", found[1]).lower(),) for found in names if found))


def _gomod(text: str) -> Said:
    found = re.findall(r"^\s*(?:require\s+)?([\w.-]+\.[\w./~-]+)\s+(v\S+)(?!.*=>)", text, re.MULTILINE)
    return Said(more_than_once((path,) for path, _ in found))


def _blocks(text: str) -> Said:
    found = re.findall(r'^(resource|data|module|variable|output)\s+("[^"]+")(?:\s+("[^"]+"))?', text, re.MULTILINE)
    return Said(more_than_once(found))


FORMS: dict[str, Callable[[str], Said]] = {
    "toml": _toml,
    "json": _json,
    "yaml": _yaml,
    "sections": _sections,
    "lines": _lines,
    "docker": data_order.docker,
    "make": _make,
    "sql": _sql,
    "patterns": data_order.patterns,
    "changes": _changes,
    "messages": _messages,
    "proto": _proto,
    "graphql": _graphql,
    "requirements": _requirements,
    "gomod": _gomod,
    "blocks": _blocks,
    "shell": data_order.shell,
    "styles": data_pages.styles,
    "page": data_pages.page,
    "prose": data_pages.prose,
}


def _answer(words: Sequence[str], versions: Sequence[bytes]) -> bytes:
    """Of a process that reads data which nobody trusts."""
    return CONTRADICTION if contradict(*versions, form=words[0]) else b""


if __name__ == "__main__":
    answer_questions(_answer)
