"""`--gate-rule KEY=VALUE`: what a gate asks for beside its commands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from envelope.gate import GateRules

from ..errors import BadInput, near_miss
from ..strange_toml import BadToml, read_toml


def gate_rules(texts: Sequence[str], known: Mapping[str, Any]) -> GateRules:
    """The rules of the command line over those that a repository's own file has. `BadInput` names the wrong one.

    >>> gate_rules(["min_coverage=80", "flaky=reject"], {"reruns": 2}).min_coverage
    80.0
    """
    return parsed_rules(dict(known) | dict(map(_pair, texts)), "--gate-rule")


def parsed_rules(rules: Mapping[str, Any], where: str) -> GateRules:
    """`where` they are written; `BadInput` names the first that is wrong or unknown."""
    try:
        return GateRules.model_validate(rules)
    except ValidationError as e:
        fault = e.errors(include_url=False, include_input=False)[0]
        key = str(fault["loc"][0])
        if fault["type"] == "extra_forbidden":
            raise BadInput(f"{where} knows no rule {key!r}", hint=near_miss(key, GateRules.model_fields)) from e
        raise BadInput(f"{where} {key}: {fault['msg']}", hint="the rules of a gate: docs/gate.md") from e


def _pair(text: str) -> tuple[str, Any]:
    """A value is TOML, as in a file, or else a text that needs no quotes here; of patterns one may stand alone."""
    key, sign, value = text.partition("=")
    if not sign:
        raise BadInput(f"--gate-rule {text!r} has no value", hint="write KEY=VALUE, such as min_coverage=80")
    try:
        found: Any = read_toml(f"value = {value}")["value"]
    except BadToml:
        found = value
    key = key.strip()
    return key, [found] if key in ("tests", "protect", "may_edit") and isinstance(found, str) else found
