"""The tables of docs/tracing.md are those of the code. `python tests/envelope/test_tracing_docs.py` writes them."""

from __future__ import annotations

import re
from pathlib import Path

from envelope.tracing.names import ATTRIBUTES, SEMANTIC_CONVENTIONS, SPANS

PAGE = Path(__file__).parent.parent.parent / "docs" / "tracing.md"


def spans_table() -> list[str]:
    rows = [f"| `{kind.name}` | {kind.otel} | {kind.below} | {kind.about} |" for kind in SPANS]
    return ["| span | kind | below | what |", "| --- | --- | --- | --- |", *rows]


def attributes_table() -> list[str]:
    rows = [f"| `{name}` | {where} | {what} |" for name, (where, what) in ATTRIBUTES.items()]
    head = f"Semantic conventions {SEMANTIC_CONVENTIONS}."
    return [head, "", "| attribute | on | what |", "| --- | --- | --- |", *rows]


def written(page: str) -> str:
    for word, table in (("spans", spans_table()), ("attributes", attributes_table())):
        text = "\n".join(table)
        page = re.sub(
            rf"(<!-- {word}: [^\n]*-->\n).*?(<!-- end of {word} -->)",
            lambda found, text=text: f"{found[1]}\n{text}\n\n{found[2]}",
            page,
            flags=re.DOTALL,
        )
    return page


def test_the_tables_are_those_of_the_code():
    assert PAGE.read_text() == written(PAGE.read_text())


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text()))
