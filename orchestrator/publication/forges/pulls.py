"""What several forges say in the same form: comments all of them, where a request comes from GitHub and Gitea."""

from __future__ import annotations

from typing import Any

from .base import Comment
from .http import reads


@reads
def source(item: Any) -> tuple[str, str]:
    """Repository and branch that a request comes from. A fork that is gone has no name any more."""
    head = item["head"]
    name: str = head["repo"]["full_name"] if head["repo"] else ""
    return name.lower(), head["ref"]


@reads
def comment(item: Any) -> Comment:
    return Comment(item["body"] or "")
