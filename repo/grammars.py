"""tree-sitter's grammars, by language. Each is loaded when it is asked for: together they are 10 MB."""

from __future__ import annotations


def python() -> object:
    import tree_sitter_python

    return tree_sitter_python.language()


def javascript() -> object:
    import tree_sitter_javascript

    return tree_sitter_javascript.language()


def typescript() -> object:
    import tree_sitter_typescript

    return tree_sitter_typescript.language_typescript()


def tsx() -> object:
    import tree_sitter_typescript

    return tree_sitter_typescript.language_tsx()


def go() -> object:
    import tree_sitter_go

    return tree_sitter_go.language()


def rust() -> object:
    import tree_sitter_rust

    return tree_sitter_rust.language()


def java() -> object:
    import tree_sitter_java

    return tree_sitter_java.language()


def c() -> object:
    import tree_sitter_c

    return tree_sitter_c.language()


def cpp() -> object:
    import tree_sitter_cpp

    return tree_sitter_cpp.language()
