# ruff: noqa: E501 - whole files on a line each
"""Two changes of one file that meet by lines, in each language of which Muster knows what files define."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tree_sitter import Language, Parser

from repo.apart import Apart
from repo.entities import unite
from repo.syntaxes import SYNTAXES


@dataclass(frozen=True)
class Sample:
    """`base` holds `{imports}`, `{functions}` and a class-like thing with `{methods}`. The others are what may stand
    there: with a name and a value in it."""

    base: str
    an_import: str
    function: str
    method: str
    changed_head: tuple[str, str]
    list_import: tuple[str, str, str, str] | None = None  # before, by one, by the other, by both


JS = Sample(
    base="{imports}\nconst LIMIT = 3;\n\n{functions}\nexport class Box {{\n  size = 1;\n\n{methods}}}\n\nmodule.exports.it = Box;\n",
    an_import='import {{ {name} }} from "./{name}.js";\n',
    function="/** Says {name}. */\nexport function {name}(a) {{\n  return {value};\n}}\n\n",
    method="  get {name}() {{\n    return {value};\n  }}\n\n",
    changed_head=("class Box {", "class Box extends Map {"),
    list_import=(
        'import { a } from "m";\n',
        'import { a, b } from "m";\n',
        'import { a, c as d } from "m";\n',
        'import { a, b, c as d } from "m";\n',
    ),
)
SAMPLES = {
    "JavaScript": JS,
    "TypeScript": Sample(
        base="{imports}\ntype Limit = number;\n\n{functions}\n@sealed\nexport class Box<T> {{\n  private size: number = 1;\n\n{methods}}}\n",
        an_import='import type {{ {name} }} from "./{name}";\n',
        function="export async function {name}<T>(a: T): Promise<number> {{\n  return {value};\n}}\n\n",
        method="  {name}(a?: string): number {{\n    return {value};\n  }}\n\n",
        changed_head=("class Box<T> {", "class Box<T> extends Map<T, T> {"),
        list_import=(
            'import {\n  a,\n} from "m";\n',
            'import {\n  a,\n  b,\n} from "m";\n',
            'import {\n  a,\n  c,\n} from "m";\n',
            'import {\n  a,\n  b,\n  c,\n} from "m";\n',
        ),
    ),
    "TSX": JS,
    "Go": Sample(
        base='// Package p does.\npackage p\n\nimport (\n\t"fmt"\n{imports})\n\nconst Limit = 3\n\n{functions}\ntype Box struct {{\n\tsize int\n}}\n\n{methods}',
        an_import='\t"example.org/{name}"\n',
        function="// {name} says.\nfunc {name}(a int) int {{\n\treturn {value}\n}}\n\n",
        method="func (b *Box) {name}() int {{\n\treturn {value}\n}}\n\n",
        changed_head=("size int", "size int64"),
    ),
    "Java": Sample(
        base="package a.b;\n\n{imports}\n/** A box. */\npublic class Box<T> {{\n  private static final int LIMIT = 3;\n\n{functions}  Box() {{\n  }}\n\n{methods}}}\n",
        an_import="import org.example.{name};\n",
        function="  static int {name}(String a) {{\n    return {value};\n  }}\n\n",
        method="  /** Of {name}. */\n  @Override\n  public int {name}() {{\n    return {value};\n  }}\n\n",
        changed_head=("class Box<T> {", "class Box<T> extends Bag<T> {"),
    ),
    "Rust": Sample(
        base="//! A box.\n#![allow(dead_code)]\n\n{imports}\nconst LIMIT: u32 = 3;\n\n{functions}\n#[derive(Debug)]\npub struct Box {{\n    size: u32,\n}}\n\nimpl Box {{\n{methods}}}\n",
        an_import="use crate::{name}::{name};\n",
        function="/// Says {name}.\n#[inline]\npub fn {name}(a: u32) -> u32 {{\n    {value}\n}}\n\n",
        method="    #[must_use]\n    pub fn {name}(&self) -> u32 {{\n        {value}\n    }}\n\n",
        changed_head=("impl Box {", "impl Box where u32: Sized {"),
        list_import=(
            "use std::{fmt};\n",
            "use std::{fmt, io};\n",
            "use std::{fmt, fs as files};\n",
            "use std::{fmt, fs as files, io};\n",
        ),
    ),
}  # fmt: skip
each_language = pytest.mark.parametrize("language", SAMPLES)
Parts = dict[str, int]  # name → value


def made(language: str, imports: Parts, functions: Parts, methods: Parts) -> bytes:
    sample = SAMPLES[language]
    texts = {
        kind: "".join(form.format(name=name, value=value) for name, value in parts.items())
        for kind, form, parts in (
            ("imports", sample.an_import, imports),
            ("functions", sample.function, functions),
            ("methods", sample.method, methods),
        )
    }
    return sample.base.format(**texts).encode()


def parses(language: str, source: bytes) -> bool:
    return not Parser(Language(SYNTAXES[language].load())).parse(source).root_node.has_error


BASE: tuple[Parts, Parts, Parts] = ({"one": 0}, {"first": 1, "second": 2}, {"get": 3, "put": 4})


@each_language
def test_what_both_sides_add_at_one_place_stands_there_once_each(language: str):
    sample = SAMPLES[language]
    base = made(language, *BASE)
    ours = made(language, *({**parts, "our" + name: 10} for parts, name in zip(BASE, "xyz", strict=True)))
    theirs = made(language, *({**parts, "their" + name: 20} for parts, name in zip(BASE, "xyz", strict=True)))

    united = unite(base, ours, theirs, language=language)

    both = made(
        language,
        *({**parts, "our" + name: 10, "their" + name: 20} for parts, name in zip(BASE, "xyz", strict=True)),
    )
    assert united == both, (united or b"").decode()
    assert parses(language, base) and parses(language, both)
    assert sample.changed_head[0] in both.decode()


@each_language
def test_a_head_and_a_member_that_each_side_changed_come_from_it(language: str):
    old, new = (text.encode() for text in SAMPLES[language].changed_head)
    base = made(language, *BASE)
    ours = base.replace(old, new)
    theirs = made(language, BASE[0], {**BASE[1], "second": 22}, {**BASE[2], "get": 33})

    assert (
        unite(base, ours, theirs, language=language)
        == theirs.replace(old, new)
        == unite(base, theirs, ours, language=language)
    )


@each_language
@pytest.mark.parametrize("kind", [1, 2], ids=["function", "method"])
def test_what_both_changed_stays_a_conflict(language: str, kind: int):
    def with_value(value: int | None) -> bytes:
        name = next(iter(BASE[kind]))
        changed = {key: old for key, old in BASE[kind].items() if key != name or value is not None}
        return made(language, *(changed | {name: value} if value and n == kind else changed if n == kind else parts for n, parts in enumerate(BASE)))  # fmt: skip

    base = made(language, *BASE)
    assert unite(base, with_value(50), with_value(60), language=language) is None
    assert unite(base, with_value(50), with_value(None), language=language) is None
    assert unite(base, with_value(None), with_value(60), language=language) is None
    assert unite(base, with_value(50), with_value(50), language=language) == with_value(50)


@each_language
def test_one_name_given_by_both_stays_a_conflict(language: str):
    base = made(language, *BASE)
    ours = made(language, BASE[0], {**BASE[1], "new": 5}, BASE[2])
    theirs = made(language, BASE[0], {**BASE[1], "new": 6}, BASE[2])

    assert unite(base, ours, theirs, language=language) is None


@pytest.mark.parametrize("language", [name for name, sample in SAMPLES.items() if sample.list_import])
def test_names_that_both_take_from_one_module_are_united(language: str):
    texts = SAMPLES[language].list_import
    assert texts is not None
    base, ours, theirs, both = (text.encode() for text in texts)

    assert unite(base, ours, theirs, language=language) == both


DOUBTS = {
    "Go": {
        "values that count on": ("const (\n\tA = iota\n)\n", "const (\n\tA = iota\n\tB\n)\n", "const (\n\tA = iota\n\tC\n)\n"),
        "one alias for two": ("package p\n", 'package p\nimport x "a"\n', 'package p\nimport x "b"\n'),
        "a method for two receivers": ("package p\n", "package p\nfunc (a T) m() {}\n", "package p\nfunc (b *T) m() {}\n"),
    },
    "JavaScript": {
        "two defaults": ("f();\n", "f();\nexport default function a() {}\n", "f();\nexport default class B {}\n"),
        "statements that do something": ("a();\n", "a();\nb();\n", "a();\nc();\n"),
        "no end of a statement": ("let a = 1\n", "let a = 1\nlet b = a\n", "let a = 1\n;(function () {})()\n(x)\n"),
        "one name, two modules": ("f();\n", 'import x from "a";\nf();\n', 'import { x } from "b";\nf();\n'),
        "a comment over two lines": ("a(); /*\n*/ b();\n", "a(); /*\n*/ b();\nlet c = 1\n", "a(); /*\n*/ b();\nlet d = 1\n"),
        "on one line": ("class A { a() {} }\n", "class A { a() {} b() {} }\n", "class A { a() {} c() {} }\n"),
        "what is exported": ("let a;\n", "let a;\nmodule.exports = 1;\n", "let a;\nmodule.exports = 2;\n"),
    },
    "Java": {
        "constants in their order": ("enum E {\n  A\n}\n", "enum E {\n  A, B\n}\n", "enum E {\n  A, C\n}\n"),
        "blocks that run": ("class A {\n  int a;\n}\n", "class A {\n  int a;\n  { a = 1; }\n}\n", "class A {\n  int a;\n  { a = 2; }\n}\n"),
    },
    "Rust": {
        "fields": ("struct A {\n    a: u8,\n}\n", "struct A {\n    a: u8,\n    b: u8,\n}\n", "struct A {\n    a: u8,\n    c: u8,\n}\n"),
        "two of one impl": ("struct A;\n", "struct A;\nimpl A {\n    fn a() {}\n}\n", "struct A;\nimpl A {\n    fn b() {}\n}\n"),
    },
    "TypeScript": {
        "decorators, which run one after the other": (
            "class A {\n  a() {}\n}\n", "class A {\n  a() {}\n  @get(1)\n  b() {}\n}\n", "class A {\n  a() {}\n  @get(2)\n  c() {}\n}\n"
        ),
        "overloads": ("let a = 1;\n", "let a = 1;\nfunction f(): void;\nfunction f(a?: number) {}\n", "let a = 1;\nlet b = 1;\n"),
    },
}  # fmt: skip


@pytest.mark.parametrize(
    ("language", "texts"),
    [(language, texts) for language, cases in DOUBTS.items() for texts in cases.values()],
    ids=[f"{language}: {name}" for language, cases in DOUBTS.items() for name in cases],
)
def test_what_is_in_doubt_stays_a_conflict(language: str, texts: tuple[str, str, str]):
    base, ours, theirs = (text.encode() for text in texts)
    assert all(parses(language, text) for text in (base, ours, theirs))

    assert unite(base, ours, theirs, language=language) is None
    assert unite(base, theirs, ours, language=language) is None


def test_methods_of_one_name_are_told_apart_by_what_they_take():
    base = b"class A {\n  int a;\n}\n"
    ours = b"class A {\n  int a;\n  void m(int a) {}\n}\n"
    theirs = b"class A {\n  int a;\n  void m(String a) {}\n}\n"

    assert (
        unite(base, ours, theirs, language="Java")
        == b"class A {\n  int a;\n  void m(int a) {}\n  void m(String a) {}\n}\n"
    )


NAMES = st.sampled_from(["aa", "bb", "cc", "dd", "ee"])


@st.composite
def sides(draw: st.DrawFn) -> tuple[list[Parts], list[Parts], list[Parts]]:
    """A base and two changes of it: each removes, changes and adds."""
    base = [draw(st.dictionaries(NAMES, st.integers(0, 3), max_size=4)) for _ in range(3)]

    def changed(side: str) -> list[Parts]:
        kept = [{name: draw(st.sampled_from([value, value, value + 10])) for name, value in parts.items() if draw(st.integers(0, 5))} for parts in base]  # fmt: skip
        fresh = st.dictionaries(st.sampled_from([f"{side}1", f"{side}2", "both"]), st.integers(20, 23), max_size=2)
        return [{**parts, **draw(fresh)} for parts in kept]

    return base, changed("ours"), changed("theirs")


@each_language
@settings(max_examples=40, deadline=None)
@given(sides())
def test_nothing_is_dropped_and_nothing_comes_back(language: str, three: tuple[list[Parts], list[Parts], list[Parts]]):
    base, ours, theirs = three
    texts = [made(language, *parts) for parts in three]

    united = unite(*texts, language=language)

    turned = unite(texts[0], texts[2], texts[1], language=language)
    assert (united is None) == (turned is None)
    collided = any(
        len({old.get(name), mine.get(name), other.get(name)}) == 3
        or (name not in old and name in mine and name in other and mine[name] != other[name])
        for old, mine, other in zip(base[1:], ours[1:], theirs[1:], strict=True)
        for name in {*old, *mine, *other}
    )
    if united is None:
        return
    assert not collided and parses(language, united)
    sample = SAMPLES[language]
    for name in {*base[0], *ours[0], *theirs[0]}:
        kept = name in ours[0] and name in theirs[0] if name in base[0] else True
        assert united.count(sample.an_import.format(name=name).strip().encode()) == kept, (united.decode(), name)
    for form, old, mine, other in zip((sample.function, sample.method), base[1:], ours[1:], theirs[1:], strict=True):
        for name in {*old, *mine, *other}:
            wanted = other.get(name) if mine.get(name) == old.get(name) else mine.get(name)
            for value in {old.get(name), mine.get(name), other.get(name)} - {None}:
                text = form.format(name=name, value=value).strip().encode()
                assert united.count(text) == (value == wanted), (united.decode(), name)


async def test_hostile_source_ends_with_its_process():
    for language, deep in {
        "JavaScript": b"[" * 400_000,
        "Rust": b"impl A{" * 100_000,
        "Java": b"class A{" * 100_000,
    }.items():
        async with Apart() as apart:
            assert await apart.ask("repo.entities", language, texts=[deep + b"\n"] * 3) is None
