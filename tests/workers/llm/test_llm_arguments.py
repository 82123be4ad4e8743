"""A call's arguments: what counts as an object, what is mended, and what is not."""

from __future__ import annotations

import time

import pytest

from envelope.budget import Usage
from workers.llm.arguments import MAX_REPAIRED_CHARS, MAX_VALUES, parsed, repaired
from workers.llm.assembly import Assembly, mended


@pytest.mark.parametrize(
    "arguments",
    [
        '{"path": "\\ud800"}',  # half a surrogate pair
        '{"path": ' + "9" * 30 + "}",  # beyond 64 bits
        '{"path": ' + "[" * 100 + "]" * 100 + "}",
        '{"path": ' + "[" * 100_000,
        "[1]",
        "null",
    ],
)
def test_arguments_that_fit_into_no_message_are_no_arguments_and_are_not_mended(arguments):
    assert parsed(arguments) is None
    assert repaired(arguments) is None


@pytest.mark.parametrize(
    ("broken", "meant"),
    [
        ('{"path": "a.py",}', {"path": "a.py"}),
        ("{'path': 'a.py'}", {"path": "a.py"}),
        ('{path: "a.py"}', {"path": "a.py"}),
        ('{"path": "a.py"', {"path": "a.py"}),
        ('{"path": "a.py"}}', {"path": "a.py"}),
        ('{"paths": ["a.py", "b.py"', {"paths": ["a.py", "b.py"]}),
        ('```json\n{"path": "a.py"}\n```', {"path": "a.py"}),
        ('{"all": True, "none": None}', {"all": True, "none": None}),
        ('{"text": "two\nlines"}', {"text": "two\nlines"}),
    ],
)
def test_what_models_get_wrong_is_mended(broken, meant):
    assert parsed(broken) is None
    assert repaired(broken) == meant


@pytest.mark.parametrize(
    "hopeless",
    [
        '{"content": "half of a fi',
        "[1, 2",
        "no JSON at all",
        "   ",
        "{" * 5000,
        '{"a": ' + "(" * 5000,
        '{"a":1}{"b":2}',
    ],
)
def test_what_is_cut_or_says_something_else_is_left_alone(hopeless):
    assert repaired(hopeless) is None


@pytest.mark.parametrize("unit", ['"', "'", "a b ", '"x",', '", "', "// x\n", "“b” ", "\\", "[]", "{}", "tru"])
def test_the_worst_text_is_over_soon(unit):
    hostile = ('{"a": ' + unit * MAX_REPAIRED_CHARS)[: MAX_REPAIRED_CHARS - 1]
    began = time.process_time()

    repaired(hostile)
    repaired(hostile + '"')
    assert repaired('{"a": 1,' + " " * MAX_REPAIRED_CHARS + "}") is None  # longer than what is looked at

    assert time.process_time() - began < 20  # measured: 0.1 s; without bounds it is minutes


def test_the_repairs_of_one_reply_take_no_longer_than_the_worst_of_one():
    reply, worst = Assembly(), "{" + "a b " * (MAX_REPAIRED_CHARS // 4 - 2)
    for number in range(1000):
        reply.add_call(number, f"c{number}", "read", f"{worst}{number}")
    began = time.process_time()

    calls = reply.completed("tool_calls", Usage()).tool_calls

    assert time.process_time() - began < 5  # measured: 0.2 s; each by itself two minutes
    assert len(calls) == 1000 and calls[-1].input is None


def test_many_small_ones_are_repaired():
    reply = Assembly()
    for number in range(50):
        reply.add_call(number, f"c{number}", "read", f"{{'path': 'a{number}.py',}}")

    assert all(call.repaired for call in reply.completed("tool_calls", Usage()).tool_calls)


@pytest.mark.parametrize("arguments", ['{"a": [' + "1," * MAX_VALUES + "1]}", '{"a": [' + "[]," * MAX_VALUES + "1]}"])
def test_arguments_of_more_values_than_anybody_means_are_none(arguments):
    assert parsed(arguments) is None
    assert parsed('{"content": "' + "1,[{" * MAX_VALUES + '"}')  # a file may hold any signs


def test_a_call_without_an_id_gets_one_that_is_its_own():
    reply = Assembly()
    started = [*reply.add_call(0, "", "read", "{}"), *reply.add_call(1, "", "read", "{}")]

    assert len({event.id for event in started}) == 2


def test_a_new_id_at_an_old_place_is_a_new_call():
    reply = Assembly()
    for number in range(3):
        reply.add_call(0, f"c{number}", "read", f'{{"n": {number}}}')

    assert [call.input for call in reply.completed("tool_calls", Usage()).tool_calls] == [{"n": 0}, {"n": 1}, {"n": 2}]


def test_text_can_always_be_encoded():
    assert mended("a\ud800b\udfff").encode() == "a\N{REPLACEMENT CHARACTER}b\N{REPLACEMENT CHARACTER}".encode()
