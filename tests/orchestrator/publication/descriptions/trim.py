"""`python trim.py github|gitea FILE`: of a forge's OpenAPI description what publishing uses, as JSON Schema, on stdout.

Left out are words for people, other operations, and properties that no answer must have and nobody here reads.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

PULLS, COMMENTS = "/repos/{owner}/{repo}/pulls", "/repos/{owner}/{repo}/issues/%s/comments"
OPERATIONS = {
    "github": {
        "/repos/{owner}/{repo}": ("get",),
        PULLS: ("get", "post"),
        f"{PULLS}/{{pull_number}}": ("get", "patch"),
        COMMENTS % "{issue_number}": ("get", "post"),
        "/orgs/{org}/repos": ("get",),
    },
    "gitea": {
        "/repos/{owner}/{repo}": ("get",),
        PULLS: ("get", "post"),
        f"{PULLS}/{{index}}": ("get", "patch"),
        COMMENTS % "{index}": ("get", "post"),
        "/orgs/{org}/repos": ("get",),
    },
}
READ = frozenset(
    (
        *("number", "html_url", "state", "title", "body", "head", "base", "draft", "merged", "merged_at", "ref", "sha"),
        *("repo", "full_name", "default_branch", "name", "clone_url", "archived", "empty"),
    )
)
KEPT = ("type", "enum", "items", "required", "anyOf", "oneOf", "allOf", "minLength", "maxLength")
NESTED = ("anyOf", "oneOf", "allOf")


def trimmed(kind: str, whole: dict[str, Any]) -> dict[str, Any]:
    operations: dict[str, Any] = {}
    schemas: list[Any] = []  # several operations answer with the same

    def kept(answer: Any) -> dict[str, str]:
        schemas.extend([answer] if answer not in schemas else [])
        return {"$ref": f"#/schemas/{schemas.index(answer)}"}

    for path, methods in OPERATIONS[kind].items():
        for method in methods:
            said = whole["paths"][path][method]
            parameters = [_followed(whole, each) for each in said.get("parameters", ())]
            query = [each for each in parameters if each["in"] == "query"]
            status, answer = next((code, each) for code, each in said["responses"].items() if code.startswith("2"))
            operations[f"{method.upper()} {path}"] = {
                "query": {each["name"]: _schema(whole, each["schema"], everything=True) for each in query},
                "body": _content(whole, said.get("requestBody"), everything=True),
                "status": int(status),
                "answer": kept(_content(whole, answer, everything=False)),
            }
    return {"operations": operations, "schemas": schemas}


def _content(whole: dict[str, Any], holder: dict[str, Any] | None, *, everything: bool) -> Any:
    if holder is None:
        return None
    content = _followed(whole, holder)["content"]
    return _schema(whole, content["application/json"]["schema"], everything=everything)


def _followed(whole: dict[str, Any], value: dict[str, Any]) -> dict[str, Any]:
    while "$ref" in value:
        found: Any = whole
        for step in value["$ref"].removeprefix("#/").split("/"):
            found = found[step]
        value = found
    return value


def _schema(whole: dict[str, Any], schema: dict[str, Any], *, everything: bool, above: tuple[int, ...] = ()) -> Any:
    schema = _followed(whole, schema)
    if id(schema) in above:  # a repository has a template, which is a repository
        return {}
    above = (*above, id(schema))

    def inner(each: dict[str, Any]) -> Any:
        return _schema(whole, each, everything=everything, above=above)

    made: dict[str, Any] = {key: schema[key] for key in KEPT if key in schema}
    for key in NESTED:
        if key in made:
            made[key] = [inner(each) for each in made[key]]
    if "items" in made:
        made["items"] = inner(made["items"])
    if "properties" in schema:
        kept = {name for name in schema["properties"] if everything or name in READ or name in made.get("required", ())}
        made["properties"] = {name: inner(schema["properties"][name]) for name in sorted(kept)}
    if schema.get("nullable"):
        made = {"anyOf": [made, {"type": "null"}]}
    return made


if __name__ == "__main__":
    whole = json.loads(Path(sys.argv[2]).read_text())
    sys.stdout.write(json.dumps(trimmed(sys.argv[1], whole), separators=(",", ":"), sort_keys=True) + "\n")
