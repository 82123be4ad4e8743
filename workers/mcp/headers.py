"""Headers of a remote server: written with the names of secrets, sent with their values."""

from __future__ import annotations

import re
from collections.abc import Mapping

from envelope.redaction import register_secret

from ..tools.errors import ToolError

_REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_SECRET = re.compile(r"(?i)authorization|token|key|secret|cookie|passw|credential")


def require_referenced(headers: Mapping[str, str]) -> None:
    """`ValueError` for what is no header, and for one that seems to hold a secret itself.

    >>> require_referenced({"Authorization": "Bearer ${DOCS_TOKEN}", "X-Team": "core"})
    """
    for name, value in headers.items():
        if not _NAME.fullmatch(name) or not value.isprintable():
            raise ValueError(f"{name!r} is no header, or its value has control characters in it")
        if _SECRET.search(name) and not _REFERENCE.search(value):
            raise ValueError(f"write the value of {name!r} as ${{VARIABLE}}, and set that where the worker is started")


def resolved(headers: Mapping[str, str], environ: Mapping[str, str]) -> dict[str, str]:
    """As they are sent. What the environment put in is a secret from then on; `ToolError` names what is not there."""
    return {name: _REFERENCE.sub(lambda found: _secret(found[1], environ), value) for name, value in headers.items()}


def _secret(name: str, environ: Mapping[str, str]) -> str:
    value = environ.get(name, "").strip()
    if not value:
        raise ToolError(f"the variable {name} of the worker's environment, which its headers name, is not set")
    register_secret(value)
    return value
