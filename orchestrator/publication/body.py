"""What a request for review says: where the change comes from, what it cost, and what proves it. Pure.

Whatever models, tests and repositories wrote is put into code, where Markdown has no power: no mention, no link, no
image, no order to the forge. The block stands between two marks; what people write around it stays.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from envelope.events import GateVerdict
from envelope.redaction import redact_head, redact_tail

MAX_GATE_CHARS = 4_000
MAX_VALUE_CHARS = 200
MAX_TITLE_CHARS = 200
MAX_LISTED = 10  # all in all about 20,000 characters, of the 65,000 that forges take

_BLOCK = re.compile(r"<!-- muster:([0-9a-f]{32}) ([0-9a-f]{40}) -->.*?<!-- /muster -->", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Facts:
    """`done_by`: agents, models or commands. `shards`: what became of how many."""

    task_id: str
    base: str
    commit: str
    verified: bool
    reason: str = ""
    done_by: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    cost_microusd: int = 0
    shards: tuple[tuple[str, int], ...] = ()
    gates: tuple[GateVerdict, ...] = field(default=())


def block_of(key: str, facts: Facts) -> str:
    """The block with its marks, which name the publication and the commit that it is about."""
    parts = (
        f"**{_verdict(facts)}**",
        "\n".join(_table(facts)),
        *(_gate(gate) for gate in facts.gates),
        f"Made by Muster. The whole story: `muster task show {facts.task_id}`.",
    )
    return "\n".join((f"<!-- muster:{key} {facts.commit} -->", "\n\n".join(parts), "<!-- /muster -->"))


def with_block(body: str, block: str) -> str:
    """A body as it is now, with our block in place of the one that it holds; else at its end."""
    if _BLOCK.search(body):
        return _BLOCK.sub(lambda _: block, body, count=1)
    return f"{body.rstrip()}\n\n{block}" if body.strip() else block


def commit_in(body: str, key: str) -> str | None:
    """The commit that the block of this publication names."""
    return next((commit for found, commit in _BLOCK.findall(body) if found == key), None)


def is_ours(body: str) -> bool:
    return _BLOCK.search(body) is not None


def title_of(text: str) -> str:
    """One line, with nothing in it that is not shown, and no more than forges take."""
    line = " ".join("".join(char if char.isprintable() else " " for char in text).split())
    return redact_head(line, MAX_TITLE_CHARS) or "A change by Muster"


def code(text: str) -> str:
    """As it stands, in a line.

    >>> code("a`b @all")
    '``a`b @all``'
    """
    line = _without_marks(redact_head(" ".join(text.split()), MAX_VALUE_CHARS)).strip("`").replace("|", "¦") or "-"
    ticks = _fence(line, least=1)
    return f"{ticks}{line}{ticks}"


def code_block(text: str, max_chars: int) -> str:
    """As it stands, in lines of its own, behind a fence that it cannot close; the end of what is too long."""
    kept = redact_tail(text, max_chars)
    kept = kept if len(text) <= max_chars else f"…{kept}"
    lines = _without_marks(kept).expandtabs().rstrip()
    shown = "".join(char if char.isprintable() or char == "\n" else "�" for char in lines)
    fence = _fence(shown, least=3)
    return f"{fence}text\n{shown}\n{fence}"


def _without_marks(text: str) -> str:
    """Nothing that could be taken for the end of our block, or for another's beginning."""
    return text.replace("<!--", "<! --").replace("-->", "-- >")


def _listed(names: tuple[str, ...]) -> str:
    more = len(names) - MAX_LISTED
    return ", ".join([*map(code, names[:MAX_LISTED]), *([f"{more} more"] if more > 0 else [])])


def _fence(text: str, *, least: int) -> str:
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    return "`" * max(least, longest + 1)


def _verdict(facts: Facts) -> str:
    if facts.verified:
        excused = f": {facts.reason}" if facts.reason else ""
        return f"Verified by the project's own gate, in a fresh sandbox{excused}."
    return f"Done, not verified: {code(facts.reason)}" if facts.reason else "Done, not verified."


def _table(facts: Facts) -> Iterable[str]:
    rows = (
        ("task", code(facts.task_id)),
        ("by", _listed(facts.done_by)),
        ("model", _listed(facts.models)),
        ("base", code(facts.base)),
        ("commit", code(facts.commit)),
        ("shards", ", ".join(f"{count} {name}" for name, count in facts.shards if count)),
        ("cost", f"${facts.cost_microusd / 1_000_000:.4f}"),
    )
    yield "| | |"
    yield "| --- | --- |"
    yield from (f"| {name} | {value} |" for name, value in rows if value)


def _gate(gate: GateVerdict) -> str:
    tests = "tests not counted" if gate.tests is None else f"{gate.tests} tests, {gate.failed} failed"
    skipped = f", {gate.skipped} skipped" if gate.skipped else ""
    head = f"Gate {gate.phase} the change: {'passed' if gate.passed else 'failed'}, {tests}{skipped}"
    if not gate.detail.strip():
        return head
    return f"<details><summary>{head}</summary>\n\n{code_block(gate.detail, MAX_GATE_CHARS)}\n\n</details>"
