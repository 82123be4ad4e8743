"""What of a request is its work: that is what an idempotency key stands for.

A driver's key is a digest of all that it asks for, so that nobody compares what stands under it. A field that is to be
left out is named here with the reason; one that is new counts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from .ids import content_key
from .messages import TaskRequest

_IDENTITY = "tells this task from others, and not what it does"
_LIMIT = "a limit: work that completed within another one is done all the same"
BESIDE_WORK: Mapping[str, str] = {
    "kind": "the same for all requests",
    "schema_version": "how it is written, not what",
    "signature": "who vouches for it",
    **dict.fromkeys(("task_id", "trace_id", "parent_task_id", "batch_id", "retry_of"), _IDENTITY),
    **dict.fromkeys(("traceparent", "tracestate", "intent", "sender", "created_at_ms"), "for those who watch"),
    "tenant": "the queue keeps the keys of each tenant apart",
    "idempotency_key": "it is made of all the others",
    "asks": "what people allow is theirs to allow, whoever of them is asked",
    **dict.fromkeys(("budget", "deadline_ms", "priority"), _LIMIT),
}
COMMIT = re.compile(r"[0-9a-f]{40}")


def work_in(request: TaskRequest) -> dict[str, Any]:
    """All that decides what a worker does. Code is told by its commit: bundles of one may differ in their bytes."""
    work = request.model_dump(mode="json", exclude=set(BESIDE_WORK), exclude_defaults=True)
    work["auth_scope"] = sorted(request.auth_scope)
    return _without_bundles(work)


def key_of_work(request: TaskRequest, *more: str, code: Sequence[str] | None = None) -> str:
    """The request's work as a key, so that the same work has the same key everywhere. `more`: what else tells it from
    the like. `code`: stands for the workspace's code, where that is more than the work depends on."""
    work = work_in(request)
    if code is not None:
        told = {
            name: value for name, value in work["workspace"].items() if name not in ("url", "bundle", "path", "base")
        }
        work["workspace"] = {**told, "code": list(code)}
    return content_key(json.dumps(work, sort_keys=True), *more)


def _without_bundles(value: Any) -> Any:
    """Drivers name repositories in their parameters, too: wherever a bundle stands beside the commit in it. A branch
    tells no code."""
    if isinstance(value, dict):
        fields: dict[str, Any] = value  # pyright: ignore[reportUnknownVariableType]
        is_told = COMMIT.fullmatch(str(fields.get("base", "")))
        return {name: _without_bundles(inner) for name, inner in fields.items() if not (is_told and name == "bundle")}
    if isinstance(value, list):
        return [_without_bundles(inner) for inner in value]  # pyright: ignore[reportUnknownVariableType]
    return value
