"""Languages in which symbols can be found, as data: whose files they are, and what their syntax trees call a name.

Grammars are loaded on first use: together they are 10 MB, and a task refers to symbols of one language, if of any.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache

from tree_sitter import Language

from repo import grammars


@dataclass(frozen=True, slots=True)
class Grammar:
    """`names`: type of node → the field that holds what it is called. Of two nodes of one name the first counts, and
    those whose type is `weak` (a prototype, say) only if there is no other."""

    load: Callable[[], object]
    suffixes: tuple[str, ...]
    names: Mapping[str, str]
    weak: frozenset[str] = frozenset()


def _named(*types: str) -> dict[str, str]:
    return dict.fromkeys(types, "name")


_JS = {
    **_named("function_declaration", "generator_function_declaration", "class_declaration", "method_definition"),
    **_named("variable_declarator"),
    "field_definition": "property",
    "assignment_expression": "left",
    "pair": "key",
}
_TS = {
    **_JS,
    **_named("abstract_class_declaration", "interface_declaration", "type_alias_declaration", "enum_declaration"),
    **_named("internal_module", "module", "public_field_definition", "method_signature", "abstract_method_signature"),
    **_named("property_signature", "function_signature", "enum_assignment"),
}
_C = {
    **_named("struct_specifier", "union_specifier", "enum_specifier", "enumerator", "preproc_def"),
    **_named("preproc_function_def"),
    **dict.fromkeys(("function_definition", "type_definition", "field_declaration", "declaration"), "declarator"),
}
_CPP = {**_C, **_named("class_specifier", "namespace_definition", "alias_declaration", "concept_definition")}
_PROTOTYPES = frozenset({"declaration"})

GRAMMARS: Mapping[str, Grammar] = {
    "Python": Grammar(
        grammars.python, ("py", "pyi"), {**_named("class_definition", "function_definition"), "assignment": "left"}
    ),
    "JavaScript": Grammar(grammars.javascript, ("js", "jsx", "mjs", "cjs"), _JS),
    "TypeScript": Grammar(grammars.typescript, ("ts", "mts", "cts"), _TS, frozenset({"function_signature"})),
    "TSX": Grammar(grammars.tsx, ("tsx",), _TS, frozenset({"function_signature"})),
    "Go": Grammar(
        grammars.go,
        ("go",),
        _named("function_declaration", "method_declaration", "type_spec", "type_alias", "const_spec", "var_spec")
        | _named("field_declaration", "method_elem"),
    ),
    "Rust": Grammar(
        grammars.rust,
        ("rs",),
        _named("function_item", "function_signature_item", "struct_item", "enum_item", "union_item", "trait_item")
        | _named("mod_item", "type_item", "const_item", "static_item", "macro_definition", "field_declaration")
        | _named("enum_variant")
        | {"impl_item": "type"},
        frozenset({"impl_item"}),
    ),
    "Java": Grammar(
        grammars.java,
        ("java",),
        _named("class_declaration", "interface_declaration", "enum_declaration", "record_declaration")
        | _named("annotation_type_declaration", "method_declaration", "constructor_declaration", "enum_constant")
        | _named("variable_declarator"),
    ),
    "C": Grammar(grammars.c, ("c",), _C, _PROTOTYPES),
    # headers of C are read by it as well
    "C++": Grammar(grammars.cpp, ("h", "cc", "cpp", "cxx", "hh", "hpp", "hxx"), _CPP, _PROTOTYPES),
}
SUFFIXES = {suffix: name for name, grammar in GRAMMARS.items() for suffix in grammar.suffixes}


def language_of(path: str) -> str | None:
    """
    >>> [language_of(path) for path in ("src/a.rs", "b.PY", "Makefile")]
    ['Rust', 'Python', None]
    """
    return SUFFIXES.get(posixpath.splitext(path)[1].removeprefix(".").lower())


@cache
def loaded(language: str) -> Language:
    return Language(GRAMMARS[language].load())
