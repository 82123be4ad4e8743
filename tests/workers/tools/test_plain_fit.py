"""The quick yes to a call's arguments says nothing that the library would not say."""

from __future__ import annotations

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.tools.plain_fit import plainly_fits
from workers.tools.registry import all_tools
from workers.tools.schema import first_fault

TEXTS = st.sampled_from(["", "a", "abc", "path"])
NUMBERS = st.integers(-2, 3)
VALUES = st.recursive(
    st.one_of(TEXTS, NUMBERS, st.booleans(), st.none(), st.floats(-2, 2)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXTS, inner, max_size=3)),
    max_leaves=6,
)


def schemas(inner):
    keywords = {
        "enum": st.lists(TEXTS, min_size=1, max_size=2),
        "minLength": st.integers(0, 3),
        "maxLength": st.integers(0, 3),
        "minimum": NUMBERS,
        "maximum": NUMBERS,
        "minItems": st.integers(0, 2),
        "maxItems": st.integers(0, 2),
        "items": inner,
        "properties": st.dictionaries(TEXTS, inner, max_size=3),
        "required": st.lists(TEXTS, max_size=2, unique=True),
        "additionalProperties": st.one_of(st.booleans(), inner),
        "description": TEXTS,
        "pattern": st.just("^a"),
        "not": inner,
        "const": TEXTS,
    }
    kinds = st.sampled_from(["string", "integer", "boolean", "array", "object", "number", ["string", "null"]])
    return st.fixed_dictionaries({"type": kinds}, optional=keywords)


SCHEMAS = st.recursive(st.just({"type": "string"}), schemas, max_leaves=5)


@given(schema=SCHEMAS, value=VALUES)
def test_what_plainly_fits_fits_for_the_library_too(schema, value):
    assert not plainly_fits(schema, value) or jsonschema.Draft202012Validator(schema).is_valid(value)


PLAIN = {
    "bash": {"command": "ls", "timeout": 5},
    "read": {"filePath": "/a", "offset": 3, "limit": 20},
    "edit": {"filePath": "/a", "oldString": "a", "newString": "b", "replaceAll": True},
    "todowrite": {"todos": [{"content": "look", "status": "pending"}]},
    "grep": {"pattern": "x"},
}


@pytest.mark.parametrize("name", sorted(PLAIN))
def test_calls_of_our_own_tools_plainly_fit(name):
    assert plainly_fits(all_tools()[name].parameters, PLAIN[name])


def test_what_does_not_fit_is_still_told_in_the_librarys_words():
    schema = all_tools()["read"].parameters

    assert "'filePath' is a required property" in (first_fault(schema, {}) or "")
    assert "offset" in (first_fault(schema, {"filePath": "/a", "offset": True}) or "")


@pytest.mark.parametrize(
    "schema",
    [None, [], {}, {"type": []}, {"type": "object", "properties": 5}, {"type": "object", "required": 5},
     {"type": "object", "properties": {"a": 1}}],
)  # fmt: skip
def test_a_schema_that_makes_no_sense_is_nothing_that_anything_plainly_fits(schema):
    assert not plainly_fits(schema, {"a": 1})


def test_a_value_that_is_nested_without_end_is_left_to_the_library():
    schema: dict[str, object] = {"type": "array"}
    schema["items"] = schema
    value: list[object] = []
    for _ in range(100_000):
        value = [value]

    assert not plainly_fits(schema, value)
