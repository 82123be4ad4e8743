"""No regular expression of ours takes quadratic time: `re` holds the interpreter, and so everybody's event loop, to
its end, and most of what a process reads was written by strangers.

Each expression of the code is tried with texts that are made from it: what stands before a repeat, then what repeats,
again and again, and then what does not fit.
"""

from __future__ import annotations

import ast
import importlib
import re
import signal
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

sre: Any = importlib.import_module("re._parser")

ROOT = Path(__file__).parent.parent
PACKAGES = ("envelope", "repo", "sandbox", "transport", "workers", "orchestrator", "muster")
# Programs that run inside of a sandbox: there they hold up nobody but who wrote the text.
INSIDE = ("sandbox/toolserver/", "sandbox/image/", "workers/recipes/inside/", "workers/acp/inside/")

# Each piece of work has a process of its own, which bounds its processor time.
APART = ("repo/data_", "repo/entities")

# (module, name) → what bounds its texts. A quadratic one takes 5 ms for 1,000 characters.
BOUNDED = {
    ("repo/merge_words.py", "_OFFERS"): "a path or a line is matched from its beginning, once, by the first three",
    ("repo/merge_words.py", "_BRACKETS"): "a line whose last bracket closes",
    ("workers/permissions/arithmetic.py", "_BRACED"): "a shell text of 16 KiB",
    ("orchestrator/batch/causes.py", "PARTICULAR"): "the first 500 characters of what went wrong",
    ("workers/llm/failures.py", "_MARKUP"): "16,000 characters of a page; .{0,8000}",
    ("workers/recipes/js_hooks.py", "CALLED"): "the 300 characters before a bracket",
    ("workers/recipes/js_hooks.py", "DEFINED"): "the 300 characters before a bracket",
    ("workers/sandboxes/credentials.py", "HEADER"): "the operator's own settings",
    ("workers/llm/openai_format.py", "_OWN_TEMPERATURE"): "the name of a model",
    ("workers/permissions/arithmetic.py", "_LENGTH"): "a shell text of 16 KiB",
    ("sandbox/unfit.py", "FAULTS"): "10,000 characters of an engine's words",
    ("orchestrator/gating/named_files.py", "_CONFIG"): "the name of a file, which has 255 at most",
    ("orchestrator/globs.py", "_PIECE"): "a glob of 1,000 characters",
}

SCANS = frozenset({"sub", "subn", "split", "findall", "finditer", "scanner"})
METHODS = frozenset({"search", "match", "fullmatch", *SCANS})
SHORT, LONG = 1_000, 16_000
SUSPICIOUS_S, SLOW_S, GROWTH = 0.0001, 0.02, 3.0
MAX_S = 0.4
MAX_CHARS = 16  # of one expression: with more of them it has words, and their letters repeat nothing


@dataclass(frozen=True)
class Found:
    file: str
    line: int
    name: str
    pattern: re.Pattern[Any]
    methods: frozenset[str]


class _TooSlow(Exception):
    pass


def _modules() -> Iterator[Path]:
    for package in PACKAGES:
        for file in sorted((ROOT / package).rglob("*.py")):
            if not str(file.relative_to(ROOT)).startswith(INSIDE):
                yield file


def _uses(trees: Iterable[ast.Module]) -> dict[str, set[str]]:
    """Which methods are called on what has a name."""
    uses: defaultdict[str, set[str]] = defaultdict(set)
    for tree in trees:
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and node.attr in METHODS:
                held = node.value.value if isinstance(node.value, ast.Subscript) else node.value
                if isinstance(held, ast.Name | ast.Attribute):
                    uses[held.id if isinstance(held, ast.Name) else held.attr].add(node.attr)
    return uses


def _expressions() -> Iterator[Found]:
    """All of the code. What a function makes of its arguments is looked for in the texts of its module that may be an
    expression."""
    trees = {file: ast.parse(file.read_text()) for file in _modules()}
    everywhere = _uses(trees.values())
    for file, tree in trees.items():
        space = vars(importlib.import_module(".".join(file.relative_to(ROOT).with_suffix("").parts)))
        here, names = _uses([tree]), _names(tree)
        elsewhere = set[str]().union(*(here[each] for each in here.keys() - {*names.values(), "re"})) - {"split"} or {
            "finditer"
        }
        told: set[int] = set()
        unknown: set[str] = set()
        for node in ast.walk(tree):
            match node:
                case ast.Call(func=ast.Attribute(value=ast.Name(id="re"), attr=called), args=[first, *rest]):
                    pass
                case _:
                    continue
            if called != "compile" and called not in METHODS:
                continue
            flags = [each.value for each in node.keywords if each.arg == "flags"]
            flags += rest[:1] if called == "compile" else rest[1:2] if called not in ("sub", "subn", "split") else []
            name = names.get(id(node), "")
            used = (here if name.startswith("_") else everywhere).get(name, set()) if called == "compile" else {called}
            try:
                pattern = _value(first, space)
                if isinstance(pattern, str | bytes):
                    pattern = re.compile(pattern, *(_value(flag, space) for flag in flags))
            except (NameError, re.error):
                unknown |= used or elsewhere
                continue
            told |= {id(each) for each in ast.walk(first)}
            yield _found(file, node, name, pattern, used or elsewhere)
        if unknown:
            lines = file.read_text().splitlines()
            told |= {
                id(part)
                for each in ast.walk(tree)
                if isinstance(each, ast.JoinedStr)
                for part in ast.walk(each)
                if part is not each
            }
            yield from (
                _found(file, node, names.get(id(node), ""), pattern, unknown)
                for node in ast.walk(tree)
                if isinstance(node, ast.Constant | ast.JoinedStr)
                and id(node) not in told
                and (pattern := _pattern_of(lines, node, space)) is not None
            )


def _found(file: Path, node: ast.expr, name: str, pattern: re.Pattern[Any], methods: Iterable[str]) -> Found:
    return Found(str(file.relative_to(ROOT)), node.lineno, name, pattern, frozenset(methods))


def _names(tree: ast.Module) -> dict[int, str]:
    """What each part of a module is a part of."""
    names: dict[int, str] = {}
    for node in tree.body:
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        for target in targets:
            if isinstance(target, ast.Name):
                names |= {id(each): target.id for each in ast.walk(node)}
    return names


def _pattern_of(lines: list[str], node: ast.Constant | ast.JoinedStr, space: dict[str, Any]) -> re.Pattern[Any] | None:
    """What a raw text means, if it may be an expression."""
    written = lines[node.lineno - 1].encode()[node.col_offset :]
    if not re.match(rb"[rbf]*r[rbf]*[\"'](?!\"\")", written):
        return None
    try:
        return re.compile(_value(node, space), re.MULTILINE)
    except (NameError, TypeError, re.error):
        return None


def _value(node: ast.expr, space: dict[str, Any]) -> Any:
    return eval(compile(ast.Expression(node), "pattern", "eval"), space)


def _in(items: Any) -> list[str]:
    chars: list[str] = []
    negated = False
    for kind, value in items:
        match str(kind):
            case "NEGATE":
                negated = True
            case "LITERAL":
                chars.append(chr(value))
            case "RANGE":
                chars += [chr(value[0]), chr(value[1])]
            case "CATEGORY":
                chars.append(_category(str(value)))
            case _:
                pass
    if not negated:
        return chars
    return [char for char in ' a0-\t\n."' if char not in chars][:3] or ["\x01"]


def _category(name: str) -> str:
    return {"CATEGORY_SPACE": " ", "CATEGORY_DIGIT": "0", "CATEGORY_WORD": "a"}.get(name, "-")


def _sample(parsed: Any, least: int) -> str:
    return "".join(_item_sample(kind, value, least) for kind, value in parsed)


def _item_sample(kind: Any, value: Any, least: int) -> str:
    match str(kind):
        case "LITERAL":
            return chr(value)
        case "NOT_LITERAL":
            return "a" if value != ord("a") else "b"
        case "ANY":
            return "a"
        case "IN":
            return _in(value)[0]
        case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
            low, high, inner = value
            return _sample(inner, least) * max(low, min(least, high))
        case "SUBPATTERN":
            return _sample(value[-1], least)
        case "ATOMIC_GROUP":
            return _sample(value, least)
        case "BRANCH":
            return _sample(value[1][0], least)
        case _:
            return ""


def _chars(parsed: Any) -> Iterator[str]:
    for kind, value in parsed:
        match str(kind):
            case "LITERAL":
                yield chr(value)
            case "IN":
                yield from _in(value)
            case _:
                for inner in _inner(kind, value):
                    yield from _chars(inner)


def _inner(kind: Any, value: Any) -> list[Any]:
    match str(kind):
        case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
            return [value[2]]
        case "SUBPATTERN" | "ASSERT" | "ASSERT_NOT":
            return [value[-1]]
        case "ATOMIC_GROUP":
            return [value]
        case "BRANCH":
            return list(value[1])
        case "GROUPREF_EXISTS":
            return [each for each in value[1:] if each is not None]
        case _:
            return []


def _repeats(parsed: Any, before: str, least: int) -> Iterator[tuple[str, list[str]]]:
    """What leads to each repeat without an end, and what it repeats, or stands behind it."""
    for at, (kind, value) in enumerate(parsed):
        if "REPEAT" in str(kind) and value[1] > 500:
            behind = _sample(takewhile(lambda item: "REPEAT" not in str(item[0]), list(parsed)[at + 1 :]), 1)
            bodies = [_sample(value[2], 0), _sample(value[2], 1), behind, *_chars(value[2])]
            yield before, [body for body in dict.fromkeys(bodies) if body]
        for inner in _inner(kind, value):
            yield from _repeats(inner, before, least)
        before += _item_sample(kind, value, least)


def _texts(pattern: re.Pattern[Any]) -> list[tuple[str, str, str]]:
    """Before, again and again, after."""
    parsed = sre.parse(pattern.pattern, pattern.flags)
    chars = [*dict.fromkeys([" ", "a", "0", "\n", *_chars(parsed)])][:MAX_CHARS]
    texts: set[tuple[str, str, str]] = set()
    for least in (0, 1):
        for before, bodies in _repeats(parsed, "", least):
            for body in [*bodies[:6], *chars]:
                texts |= {(before, body, "\x01"), (before, body, "\n\x01"), (before, body, "")}
                texts.add(("", before + body, "\x01"))
            if before:
                texts.add(("", before, "\x01"))
    return sorted(texts | {("", char, "\x01") for char in chars} if texts else texts)


def _time_s(pattern: re.Pattern[Any], method: str, text: Any) -> float:
    """Of the processor; `_TooSlow` after `MAX_S`."""
    signal.setitimer(signal.ITIMER_VIRTUAL, MAX_S)
    began_s = time.thread_time()
    try:
        if method in SCANS:
            for _ in pattern.finditer(text):
                pass
        else:
            getattr(pattern, method)(text)
        return time.thread_time() - began_s
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)


def _made(pattern: re.Pattern[Any], text: tuple[str, str, str], length: int) -> Any:
    before, again, after = text
    whole = before + again * (length // len(again)) + after
    return whole if isinstance(pattern.pattern, str) else whole.encode("utf-8")


def _fault(found: Found) -> str:
    for method in sorted({"finditer" if each in SCANS else each for each in found.methods}):
        for text in _texts(found.pattern):
            try:
                if (short := _time_s(found.pattern, method, _made(found.pattern, text, SHORT))) < SUSPICIOUS_S:
                    continue
                if _time_s(found.pattern, method, _made(found.pattern, text, 4 * SHORT)) < 2 * GROWTH * short:
                    continue
                shorter = _time_s(found.pattern, method, _made(found.pattern, text, LONG // 2))
                longer = _time_s(found.pattern, method, _made(found.pattern, text, LONG))
                if longer < SLOW_S or longer < GROWTH * shorter:
                    continue
                told = f"{shorter:.2f} s, then {longer:.2f} s"
            except _TooSlow:
                told = f"over {MAX_S} s"
            return f"{found.file}:{found.line} {found.name} {method} {text!r}: {told}   {found.pattern.pattern!r}"
    return ""


@contextmanager
def _stopped_in_time() -> Iterator[None]:
    def stop(number: int, frame: FrameType | None) -> None:
        raise _TooSlow

    earlier = signal.signal(signal.SIGVTALRM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGVTALRM, earlier)


def test_no_expression_takes_quadratic_time() -> None:
    found = [each for each in _expressions() if not each.file.startswith(APART)]
    assert len(found) > 500
    assert {(each.file, each.name) for each in found} >= BOUNDED.keys()

    with _stopped_in_time():
        faults = [fault for each in found if (each.file, each.name) not in BOUNDED and (fault := _fault(each))]

    assert not faults, "\n".join(faults)


@pytest.mark.parametrize(
    ("pattern", "method"),
    [
        (r"^#{1,6}[ \t]+(.*?)[ \t]*#*[ \t]*$", "match"),  # of a plan's line: cubic
        (r"(?m)[ \t]+$", "sub"),  # of a page
        (r"(?m)^Tests: +(.*\d total)$", "finditer"),  # of a gate's output
        (r"([A-Za-z_][\w-]*):\s+(.*\S)\s*", "fullmatch"),  # of a skill
        (r"\$\{\w+:-(?:[\w./ ]|\$\w+)*\}", "fullmatch"),  # of a shell text: each variable doubles it
        (r"(?m)(?:^ FAIL  .+ > .+\n)+", "finditer"),  # of a gate's output
        (r"\[([^]@*]+)\]", "search"),  # tried from each bracket
    ],
)
def test_what_has_held_a_loop_is_found(pattern: str, method: str) -> None:
    with _stopped_in_time():
        assert _fault(Found("", 0, "", re.compile(pattern), frozenset({method})))
