"""Requests and answers held against what forges say of their own APIs: see `publication/descriptions`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jsonschema import Draft7Validator

FOLDER = Path(__file__).parents[1] / "publication" / "descriptions"
LEAVES = {"string": "", "integer": 0, "number": 0, "boolean": False, "null": None}
NUMBER = {"integer": int, "boolean": lambda text: {"true": True, "false": False}[text]}


@dataclass(frozen=True)
class Operation:
    name: str
    query: Mapping[str, Any]
    body: Any
    status: int
    answer: Any  # a schema

    def faults_of_request(self, query: Mapping[str, str], body: Any) -> Iterator[str]:
        for name, text in query.items():
            if name not in self.query:
                yield f"{self.name} knows no {name}"
            else:
                yield from self._faults(self.query[name], _value(self.query[name], text), name)
        if body is not None and self.body is None:
            yield f"{self.name} takes no body"
        elif self.body is not None:
            yield from self._faults(self.body, body, "body")
            yield from (f"{self.name} takes no {key}" for key in set(body or {}) - set(self.body.get("properties", {})))

    def faults_of_answer(self, status: int, answer: Any) -> Iterator[str]:
        if status != self.status:
            yield f"{self.name} answers {self.status} and not {status}"
        yield from self._faults(self.answer, answer, "answer")
        yield from (f"{self.name} answers no {path}" for path in _unknown(self.answer, answer, ""))

    def filled(self, given: Any) -> Any:
        """An answer with `given` in it, and what else it must have."""
        return _filled(self.answer, given)

    def _faults(self, schema: Any, value: Any, what: str) -> Iterator[str]:
        for error in Draft7Validator(schema).iter_errors(value):
            yield f"{self.name}: {what} {'/'.join(map(str, error.path))}: {error.message}"


class Description:
    def __init__(self, kind: str) -> None:
        said = json.loads((FOLDER / f"{kind}.json").read_text())
        self._operations: list[tuple[re.Pattern[str], Operation]] = []
        for name, each in said["operations"].items():
            method, _, path = name.partition(" ")
            pattern = re.compile(method + " " + re.sub(r"\\\{[a-z_]+\\\}", "[^/]+", re.escape(path)))
            answer = said["schemas"][int(each["answer"]["$ref"].rpartition("/")[2])]
            operation = Operation(name, each["query"], each["body"], each["status"], answer)
            self._operations.append((pattern, operation))

    def operation(self, method: str, path: str) -> Operation | None:
        """`path`: below the API's own, as it was written in the request."""
        return next((one for pattern, one in self._operations if pattern.fullmatch(f"{method} {path}")), None)


def _value(schema: Mapping[str, Any], text: str) -> Any:
    try:
        return NUMBER.get(schema.get("type", ""), str)(text)
    except (ValueError, KeyError):
        return text


def _chosen(schema: Mapping[str, Any], given: Any) -> Mapping[str, Any]:
    """Of several forms the one for what is given, the first that is something where nothing is."""
    forms = schema.get("anyOf") or schema.get("oneOf")
    if not forms:
        return schema
    is_none = [form for form in forms if form.get("type") == "null"]
    others = [form for form in forms if form.get("type") != "null"]
    return is_none[0] if given is None and is_none else _chosen(others[0], given)


def _filled(schema: Mapping[str, Any], given: Any) -> Any:
    schema = _chosen(schema, given)
    if "allOf" in schema:
        parts = [_filled(each, given) for each in schema["allOf"]]
        return {name: value for part in parts for name, value in part.items()} if isinstance(given, dict) else parts[0]
    if schema.get("type") == "array":
        return [_filled(schema.get("items", {}), each) for each in given or ()]
    if schema.get("type") == "object" or "properties" in schema:
        known, own = schema.get("properties", {}), dict(given or {})
        names = {*schema.get("required", ()), *own}
        return {name: _filled(known[name], own.get(name)) if name in known else own.get(name) for name in names}
    if given is not None:
        return given
    return schema["enum"][0] if "enum" in schema else LEAVES.get(schema.get("type", "null"))


def _unknown(schema: Mapping[str, Any], value: Any, place: str) -> Iterator[str]:
    schema = _chosen(schema, value)
    if isinstance(value, list):
        for each in value:
            yield from _unknown(schema.get("items", {}), each, place)
    elif isinstance(value, dict) and "properties" in schema:
        for name, inner in value.items():
            if name in schema["properties"]:
                yield from _unknown(schema["properties"][name], inner, f"{place}/{name}")
            else:
                yield f"{place}/{name}"
