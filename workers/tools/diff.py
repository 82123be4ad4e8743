"""What a tool changed, as a unified diff for people."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from functools import partial
from typing import Any

from repo.fairness import beside
from transport.blobs.owners import acting_tenant

from .paths import relative
from .truncate import MAX_BYTES, truncate

CONTEXT_LINES = 3
# Finding the smallest difference takes time that grows with the square of the text; beyond this the whole part that
# differs is shown as one change.
MAX_MATCHED_LINES = 1000
# What a model is shown of a change that it did not quite ask for: enough to see what went.
MAX_TOLD_BYTES = 4 * 1024

Change = tuple[bytes | None, bytes | None]  # the content before and after; None: no such file


async def diff_of(changes: Mapping[str, Change]) -> dict[str, Any]:
    """Metadata of a tool that wrote: the diff of all its files by path, cut to what a tool may say."""
    return {"diff": await beside.run(acting_tenant(), partial(_cut_diff, changes))}


async def shown_diff(changes: Mapping[str, Change]) -> str:
    """The same diff for a person who must allow it, whole."""
    return await beside.run(acting_tenant(), partial(_whole_diff, changes))


async def told_diff(changes: Mapping[str, Change]) -> str:
    """The same diff for a model, cut short."""
    return (await beside.run(acting_tenant(), partial(_cut_diff, changes, MAX_TOLD_BYTES))).rstrip("\n")


def _cut_diff(changes: Mapping[str, Change], max_bytes: int = MAX_BYTES) -> str:
    whole = _whole_diff(changes)
    cut = truncate(whole, max_bytes=max_bytes)
    return f"{cut.text}\n(cut: {cut.dropped_lines} more lines)\n" if cut.dropped_lines else whole


def _whole_diff(changes: Mapping[str, Change]) -> str:
    return "".join(unified_diff(relative(path), *change) for path, change in changes.items())


def unified_diff(path: str, before: bytes | None, after: bytes | None) -> str:
    """Empty when nothing differs. A last line without its newline is marked as usual."""
    if before == after:
        return ""
    old, new = _lines(before), _lines(after)
    names = ("/dev/null" if content is None else posixpath.join(side, path.lstrip("/"))
             for side, content in (("a", before), ("b", after)))  # fmt: skip
    header = "--- {}\n+++ {}\n".format(*names)
    return header + "".join(_hunks(old, new))


def _hunks(old: Sequence[str], new: Sequence[str]) -> Iterator[str]:
    skipped = max(0, _common_start(old, new) - CONTEXT_LINES)
    rest = min(len(old), len(new)) - skipped
    same_end = max(0, _common_start(old[::-1], new[::-1]) - CONTEXT_LINES)
    kept = max(0, min(same_end, rest))
    old, new = old[skipped : len(old) - kept], new[skipped : len(new) - kept]
    if len(old) + len(new) > MAX_MATCHED_LINES:
        groups = [[("replace", 0, len(old), 0, len(new))]]
    else:
        groups = SequenceMatcher(None, old, new, autojunk=False).get_grouped_opcodes(CONTEXT_LINES)
    for group in groups:
        (_, from_old, _, from_new, _), (_, _, to_old, _, to_new) = group[0], group[-1]
        yield f"@@ -{_span(skipped, from_old, to_old)} +{_span(skipped, from_new, to_new)} @@\n"
        for kind, a, b, c, d in group:
            if kind == "equal":
                yield from (f" {line}" for line in old[a:b])
            else:
                yield from (f"-{line}" for line in old[a:b])
                yield from (f"+{line}" for line in new[c:d])


def _span(skipped: int, start: int, end: int) -> str:
    """Counted from one; of nothing, after which line it would come."""
    count = end - start
    return f"{skipped + start + (count > 0)},{count}"


def _common_start(one: Sequence[str], other: Sequence[str]) -> int:
    return next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def _lines(content: bytes | None) -> list[str]:
    text = (content or b"").decode("utf-8", "replace")
    lines = [f"{line}\n" for line in text.split("\n")]
    last = lines.pop().removesuffix("\n")
    return [*lines, f"{last}\n\\ No newline at end of file\n"] if last else lines
