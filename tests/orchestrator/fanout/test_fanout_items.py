"""What a fan-out is over, and how its prompt names each item."""

from __future__ import annotations

import pytest

from orchestrator.errors import BadInput
from orchestrator.fanout.items import (
    MAX_ITEMS,
    check_prompt,
    items_of_json,
    items_of_lines,
    items_of_paths,
    items_of_values,
    prompt_for,
    title_of,
)


def test_lines_are_items_and_empty_ones_are_not():
    items = items_of_lines(["a\n", "\n", "  b  \n"], name="x")
    assert items == [{"item": "a", "number": "1"}, {"item": "b", "number": "2"}]


def test_paths_can_be_named_as_such():
    [item] = items_of_paths(["src/a.py"], name="x")
    assert prompt_for("{path} = {item} ({number})", item) == "src/a.py = src/a.py (1)"


def test_fields_of_objects_have_names():
    first, second = items_of_json(['{"name": "a", "lines": [1, 2]}', '"plain"'], name="x")
    assert prompt_for("{name} {lines} {item}", first) == 'a [1, 2] {"name": "a", "lines": [1, 2]}'
    assert prompt_for("{item}", second) == "plain"


def test_an_items_own_braces_and_those_of_code_stay_as_they_are():
    [item] = items_of_lines(["{number} {{x}}"], name="x")
    assert prompt_for('{item}; {"a": {other}}', item) == '{number} {{x}}; {"a": {other}}'


@pytest.mark.parametrize(
    ("prompt", "message", "hint"),
    [
        ("look", "the same for every item", "{item}"),
        ("look at {itme}", "the same for every item", "'item'"),
        ("look at {name}", "item 2 has no field 'name'", "every item"),
    ],
)
def test_a_prompt_that_does_not_fit_its_items_is_refused(prompt, message, hint):
    items = items_of_json(['{"name": "a"}', '{"other": "b"}'], name="x")
    with pytest.raises(BadInput, match=message) as refused:
        check_prompt(prompt, items)
    assert hint in refused.value.hint


def test_a_line_that_is_not_json_is_named():
    with pytest.raises(BadInput, match=r"items\.jsonl:2"):
        items_of_json(['"a"', "{broken"], name="items.jsonl")
    with pytest.raises(BadInput, match=r"items\.jsonl:1"):
        items_of_json(["[" * 100_000], name="items.jsonl")


def test_none_and_too_many_are_refused():
    with pytest.raises(BadInput, match="no items"):
        items_of_lines(["\n"], name="x")
    with pytest.raises(BadInput, match="more than"):
        items_of_lines(map(str, range(MAX_ITEMS + 1)), name="x")


@pytest.mark.parametrize("letter", ["x", "é", "語"])
def test_the_prompts_of_all_items_are_bounded_in_bytes(letter):
    items = items_of_values(range(400), name="x")
    within = 32 * 1024 * 1024 // 400 // len(letter.encode())

    check_prompt("{item} " + letter * within, items)  # of each 4 KiB do not count
    with pytest.raises(BadInput, match="4 KiB for each task and 32 MiB more in all") as refused:
        check_prompt("{item} " + letter * (2 * within), items)
    assert "name files" in refused.value.hint
    check_prompt("{item} " + "x" * 4_000, items_of_values(range(MAX_ITEMS), name="x"))


def test_a_long_item_that_a_prompt_names_very_often_is_never_filled_in():
    [item] = items_of_lines(["x" * 1_000], name="x")
    with pytest.raises(BadInput, match="the most"):
        prompt_for("{item}" * 100_000, item)


def test_a_title_is_one_short_line():
    [item] = items_of_json(['"' + "a\\n" * 300 + '"'], name="x")
    assert "\n" not in title_of(item)
    assert len(title_of(item)) <= 200
