"""Languages whose files are merged by what they define, as data: what their syntax trees call a definition.

For those with braces. Python, whose blocks have none, is read in `entities.py`. Grammars are loaded on first use.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from . import grammars

MAX_SOURCE_BYTES = 1024 * 1024  # parsed in half a second; larger files are generated
CONTRADICTION = b"contradiction"  # what the process that reads files says of versions that cannot both stand


@dataclass(frozen=True, slots=True)
class Syntax:
    """`named`: type of a definition → the fields that together tell it from others of its scope. `values`: types that
    hold declarators, of which each has a name. `imports`: what brings names along. `top`: what must stay first.
    `above`: what belongs to what follows it. `around`: type → the field with the definition that it holds. `bodies`:
    definitions whose body's members can be told apart; in `lists` members are (an import's, say). `comments`: what a
    line of one begins with."""

    load: Callable[[], object]
    suffixes: tuple[str, ...]
    named: Mapping[str, tuple[str, ...]]
    values: frozenset[str] = frozenset()
    imports: frozenset[str] = frozenset()
    top: frozenset[str] = frozenset()
    above: frozenset[str] = frozenset({"comment"})
    around: Mapping[str, str] = field(default_factory=dict[str, str])
    bodies: frozenset[str] = frozenset()
    comments: tuple[bytes, ...] = (b"//", b"/*", b"*")


def _by_name(*types: str) -> dict[str, tuple[str, ...]]:
    return dict.fromkeys(types, ("name",))


_JS = Syntax(
    grammars.javascript,
    ("js", "jsx", "mjs", "cjs"),
    _by_name("function_declaration", "generator_function_declaration", "class_declaration", "method_definition")
    | {"field_definition": ("property",)},
    values=frozenset({"lexical_declaration", "variable_declaration"}),
    imports=frozenset({"import_statement"}),
    top=frozenset({"hash_bang_line"}),
    around={"export_statement": "declaration"},
    bodies=frozenset({"class_declaration"}),
)
_TS = Syntax(
    grammars.typescript,
    ("ts", "mts", "cts"),
    dict(_JS.named)
    | _by_name("abstract_class_declaration", "interface_declaration", "type_alias_declaration", "enum_declaration")
    | _by_name("function_signature", "public_field_definition", "abstract_method_signature", "method_signature")
    | _by_name("property_signature"),
    values=_JS.values,
    imports=_JS.imports,
    top=_JS.top,
    above=frozenset({"comment", "decorator"}),
    around=_JS.around,
    bodies=frozenset({"class_declaration", "abstract_class_declaration", "interface_declaration"}),
)
SYNTAXES: Mapping[str, Syntax] = {
    "Python": Syntax(grammars.python, ("py", "pyi"), {}, comments=(b"#",)),
    "JavaScript": _JS,
    "TypeScript": _TS,
    "TSX": replace(_TS, load=grammars.tsx, suffixes=("tsx",)),
    "Go": Syntax(
        grammars.go,
        ("go",),
        _by_name("function_declaration", "type_spec", "type_alias", "const_spec", "var_spec")
        | {"method_declaration": ("receiver", "name")},
        values=frozenset({"type_declaration", "const_declaration", "var_declaration"}),
        imports=frozenset({"import_declaration", "import_spec"}),
        top=frozenset({"package_clause"}),
        bodies=frozenset({"import_declaration"}),
    ),
    "Java": Syntax(
        grammars.java,
        ("java",),
        _by_name("class_declaration", "interface_declaration", "enum_declaration", "record_declaration")
        | _by_name("annotation_type_declaration")
        | dict.fromkeys(("method_declaration", "constructor_declaration"), ("name", "parameters")),
        values=frozenset({"field_declaration", "constant_declaration"}),
        imports=frozenset({"import_declaration"}),
        top=frozenset({"package_declaration"}),
        above=frozenset({"line_comment", "block_comment"}),
        bodies=frozenset({"class_declaration", "interface_declaration", "record_declaration"}),
    ),
    "Rust": Syntax(
        grammars.rust,
        ("rs",),
        _by_name("function_item", "function_signature_item", "struct_item", "enum_item", "union_item", "trait_item")
        | _by_name("mod_item", "type_item", "const_item", "static_item", "macro_definition", "associated_type")
        | {"impl_item": ("type_parameters", "trait", "type")},
        imports=frozenset({"use_declaration", "extern_crate_declaration"}),
        top=frozenset({"inner_attribute_item", "shebang"}),
        above=frozenset({"line_comment", "block_comment", "attribute_item"}),
        bodies=frozenset({"impl_item", "trait_item", "mod_item"}),
    ),
}
SUFFIXES = {f".{suffix}": language for language, syntax in SYNTAXES.items() for suffix in syntax.suffixes}
