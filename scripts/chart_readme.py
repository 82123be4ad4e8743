"""Write the table of values into helm/muster/README.md, from the `# --` comments in values.yaml.

python scripts/chart_readme.py [--check]
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import yaml

CHART = Path(__file__).parent.parent / "helm" / "muster"
BEGIN, END = "<!-- values: begin -->", "<!-- values: end -->"


def rows(text: str) -> Iterator[tuple[str, str, str]]:
    """(path, default, what it says) of every key with a comment, in the file's order; the others are only folders."""
    values, path, said = yaml.safe_load(text), list[tuple[int, str]](), ""
    for line in text.splitlines():
        stripped = line.strip()
        if stripped.startswith("# -- "):
            said = stripped[5:]
        elif stripped.startswith("#"):
            said += f" {stripped[1:].strip()}" if said else ""
        elif ":" in stripped:
            depth = len(line) - len(line.lstrip())
            path = [(at, key) for at, key in path if at < depth] + [(depth, stripped.partition(":")[0])]
            if said:
                keys = [key for _, key in path]
                yield ".".join(keys), default(values, keys), said
                said = ""


def default(values: object, keys: list[str]) -> str:
    for key in keys:
        assert isinstance(values, dict)
        values = values[key]
    is_nested = isinstance(values, dict) and any(isinstance(value, dict) for value in values.values())
    return "see values.yaml" if is_nested else json.dumps(values)


def table(text: str) -> str:
    lines = (f"| `{path}` | `{value}` | {said.replace('|', chr(92) + '|')} |" for path, value, said in rows(text))
    return "\n".join(["| key | default | what it is |", "| --- | --- | --- |", *lines])


def readme(text: str, values: str) -> str:
    before, _, rest = text.partition(BEGIN)
    return f"{before}{BEGIN}\n{table(values)}\n{END}{rest.partition(END)[2]}"


def main() -> None:
    page = CHART / "README.md"
    wanted = readme(page.read_text(), (CHART / "values.yaml").read_text())
    if "--check" in sys.argv:
        sys.exit(
            0 if page.read_text() == wanted else "error: the table is old\nhint: run python scripts/chart_readme.py"
        )
    page.write_text(wanted)


if __name__ == "__main__":
    main()
