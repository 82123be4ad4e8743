"""Answers of a certain form: through a real worker, and what a schema may be."""

from __future__ import annotations

import asyncio
import time
import tracemalloc
from collections.abc import Callable

import pytest

from envelope.budget import Budget
from envelope.errors import ErrorCode
from envelope.lifecycle import State
from envelope.messages import TaskInput
from workers.agent.structured import REMINDER, SYSTEM_LINE
from workers.delivery.output_schema import MAX_DEPTH, MAX_SCHEMA_BYTES, answer_schema
from workers.errors import BadInput
from workers.tools.schema import TOO_LONG, find_fault, first_fault

SCHEMA = {
    "type": "object",
    "properties": {"steps": {"type": "array", "items": {"$ref": "#/$defs/Step"}}},
    "required": ["steps"],
    "$defs": {"Step": {"type": "object", "properties": {"title": {"type": "string"}}, "required": ["title"]}},
}
GIVES = '{tool_calls: [{name: StructuredOutput, arguments: {steps: [{title: "Lies: 2"}]}}]}'
GIVES_WRONG = "{tool_calls: [{name: StructuredOutput, arguments: {steps: [{title: 7}]}}]}"


@pytest.fixture
def planned(start_agents) -> Callable:
    """`await planned(rules, …)`: the result of a task that wants `SCHEMA`, and the model's server."""

    async def run(rules: str, **fields):
        hands, server = await start_agents(f"rules:\n{rules}")
        told = {"agent": "build", "input": TaskInput(prompt="plan it"), "output_schema": SCHEMA, **fields}
        return await hands.result(hands.request(**told)), server

    return run


@pytest.mark.redis
@pytest.mark.docker
async def test_an_answer_of_the_wanted_form_ends_the_task_and_stands_in_its_result(planned):
    result, server = await planned(f"  - reply: {GIVES}")

    assert (result.status, result.errors) == (State.COMPLETED, ())
    assert result.output.structured == {"steps": [{"title": "Lies: 2"}]}
    assert result.output.text == '{"steps": [{"title": "Lies: 2"}]}'
    assert server.log.requests == 1
    assert SYSTEM_LINE in server.log.bodies[0]["messages"][0]["content"]
    offered = {tool["function"]["name"]: tool["function"] for tool in server.log.bodies[0]["tools"]}
    assert offered["StructuredOutput"]["parameters"] == SCHEMA


@pytest.mark.redis
@pytest.mark.docker
async def test_a_wrong_answer_is_told_what_is_wrong_and_may_be_mended(planned):
    result, server = await planned(f"  - {{when: {{turn: 1}}, reply: {GIVES_WRONG}}}\n  - reply: {GIVES}")

    assert result.output.structured == {"steps": [{"title": "Lies: 2"}]}
    assert "steps.0.title: 7 is not of type 'string'" in server.log.bodies[1]["messages"][-1]["content"]


@pytest.mark.redis
@pytest.mark.docker
async def test_a_plain_answer_is_reminded_once(planned):
    result, server = await planned(f"  - {{when: {{turn: 1}}, reply: {{text: Done.}}}}\n  - reply: {GIVES}")

    assert result.status is State.COMPLETED
    assert result.output.structured == {"steps": [{"title": "Lies: 2"}]}
    assert server.log.bodies[1]["messages"][-1]["content"] == REMINDER


@pytest.mark.redis
@pytest.mark.docker
async def test_a_second_plain_answer_is_an_error_with_its_code(planned):
    result, server = await planned("  - reply: {text: It is all done.}")

    assert (result.status, [error.code for error in result.errors]) == (State.ERROR, [ErrorCode.NO_ANSWER])
    assert (result.output.text, result.output.structured) == ("It is all done.", None)
    assert server.log.requests == 2


@pytest.mark.redis
@pytest.mark.docker
async def test_the_last_turn_may_still_give_the_answer(planned):
    result, server = await planned(f"  - reply: {GIVES}", budget=Budget(max_turns=1))

    assert (result.status, result.output.structured) == (State.COMPLETED, {"steps": [{"title": "Lies: 2"}]})
    assert "tool_choice" not in server.log.bodies[0], "it is given by a call"


@pytest.mark.redis
@pytest.mark.docker
async def test_a_bad_schema_is_refused_before_a_model_is_asked(planned):
    result, server = await planned("  - reply: {text: hi}", output_schema={"type": "array"})

    assert result.errors[0].code is ErrorCode.BAD_INPUT
    assert "wrap" in result.errors[0].hint
    assert server.log.requests == 0


def nested(depth: int) -> dict:
    return {"not": nested(depth - 1)} if depth else {}


# Fifty lines that come to 2 to the 50th checks.
DOUBLING = {str(n): {"allOf": [{"$ref": f"#/$defs/{n + 1}"}] * 2} for n in range(50)} | {"50": {}}


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({"type": "array"}, "not of type object"),
        ({"type": "object", "properties": {"a": {"type": "strnig"}}}, "properties.a.type"),
        ({"type": "object", "required": "a"}, "required"),
        ({"properties": {"a": {"$ref": "https://example.com/a.json"}}}, "nothing else is read"),
        ({"properties": {"a": {"$ref": "file:///etc/passwd"}}}, "nothing else is read"),
        ({"properties": {"a": {"$ref": "#/$defs/A"}}}, "nothing else is read"),
        ({"properties": {"a": {"$id": "https://example.com/", "$ref": "#"}}}, "$id"),
        (nested(MAX_DEPTH + 1), "levels deep"),
        ({"description": "x" * MAX_SCHEMA_BYTES}, "bytes"),
        ({"properties": {"a": {"type": "string", "pattern": "(a"}}}, "'(a'"),
        ({"patternProperties": {"^(a+)+$": {}}}, "additionalProperties"),
        ({"unevaluatedProperties": False}, "additionalProperties"),
        ({"properties": {"a": {"type": "array", "unevaluatedItems": {"type": "string"}}}}, "unevaluatedItems"),
        ({"allOf": [{}] * 5_000}, "5000 parts"),
        ({"properties": {"a": {"$schema": "http://json-schema.org/draft-07/schema#"}}}, "$schema"),
        ({"$ref": "#/$defs/0", "$defs": DOUBLING}, "too long"),
    ],
)
def test_a_schema_that_cannot_be_used_says_why(schema, said):
    with pytest.raises(BadInput) as refused:
        answer_schema(schema)

    assert said in str(refused.value)
    assert refused.value.hint


# A page that comes to 2 to the 40th looks: the library follows references for this keyword by itself.
DEPENDENT = {f"{n}": {"dependentSchemas": {x: {"$ref": f"#/$defs/{n + 1}"} for x in "xy"}} for n in range(40)}
ENDLESS = {
    "type": "object",
    "unevaluatedProperties": False,
    "$ref": "#/$defs/0",
    "$defs": DEPENDENT | {"40": {"additionalProperties": True}},
}


def test_no_keyword_goes_on_past_the_time_for_a_check():
    began_s = time.thread_time()

    assert first_fault(ENDLESS, {"x": 1, "y": 2}) in (None, TOO_LONG)
    assert time.thread_time() - began_s < 5


def test_faults_of_a_large_answer_are_short():
    """Each alternative tells the whole value, and all of them are kept until one fits."""
    tracemalloc.start()
    try:
        fault = first_fault({"properties": {"a": {"anyOf": [{"type": "string"}] * 100}}}, {"a": ["x" * 50] * 10_000})
        assert fault is not None and len(fault) < 5000
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("value", [10**400, float("inf"), float("nan")])
def test_a_number_that_cannot_be_divided_is_a_fault(value):
    assert "counted" in (first_fault({"properties": {"a": {"multipleOf": 0.5}}}, {"a": value}) or "counted")
    assert first_fault({"properties": {"a": {"multipleOf": 0.5}}}, {"a": 1.5}) is None


async def test_a_long_check_holds_up_nobody_else():
    schema = answer_schema(
        {"properties": {"one": {"allOf": [{"additionalProperties": {"$ref": "#/properties/one"}}] * 2}}}
    )
    checks = asyncio.gather(*(find_fault(schema, {"one": nested(60)}, "theirs") for _ in range(4)))
    longest_s = 0.0
    while not checks.done():
        began_s = time.monotonic()
        await asyncio.sleep(0)
        longest_s = max(longest_s, time.monotonic() - began_s)

    assert await checks == [TOO_LONG] * 4
    assert longest_s < 0.4, "the whole of one check is half a second"


def test_a_schema_may_name_itself_and_lack_its_type():
    ours = {"properties": {"b": {"$ref": "#/$defs/A"}}, "additionalProperties": False}
    written = {
        "$id": "https://example.com/plan",
        "$schema": "https://x.example/",
        "$ref": "#/$defs/A",
        "$defs": {"A": ours},
    }

    schema = answer_schema(written)

    assert set(schema) == {"$ref", "$defs", "type"}
    assert first_fault(schema, {"b": {"b": {}}}) is None
    assert "'c' was unexpected" in (first_fault(schema, {"b": {"c": 1}}) or "")


def test_a_schema_that_never_ends_is_a_fault_and_no_crash():
    assert first_fault(answer_schema({"$ref": "#"}), {}) == "they are nested too deeply"


@pytest.mark.parametrize(
    ("one", "answer"),
    [
        ({"type": "string", "pattern": "^(a|aa)+$"}, "a" * 60 + "!"),
        ({"type": "array", "items": {"pattern": "^(a|aa)+$"}}, ["a" * 60 + "!"] * 100),
        ({"allOf": [{"additionalProperties": {"$ref": "#/properties/one"}}] * 2}, nested(60)),
    ],
    ids=["pattern", "patterns", "references"],
)
def test_a_check_that_would_take_years_is_given_up(one, answer):
    assert first_fault(answer_schema({"properties": {"one": one}}), {"one": answer}) == TOO_LONG


@pytest.mark.parametrize(
    ("schema", "value", "said"),
    [
        ({"pattern": "^v[0-9]+$"}, "v1", None),
        ({"pattern": "^v[0-9]+$"}, "x1", "'x1' does not match"),
        ({"uniqueItems": True}, [{"a": 1}, {"a": 2}], None),
        ({"uniqueItems": True}, [{"a": 1, "b": 2}, {"b": 2, "a": 1}], "twice"),
    ],
)
def test_patterns_and_lists_of_different_items_are_checked(schema, value, said):
    fault = first_fault(answer_schema({"properties": {"one": schema}}), {"one": value})

    assert fault is None if said is None else said in fault
