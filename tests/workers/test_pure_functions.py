"""The contract of the pure functions, as its page says it; and that nothing but its refusals comes out of them."""

from __future__ import annotations

import doctest
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.agents.registry import parse_agent
from workers.commands import expand
from workers.errors import BadAgent
from workers.llm.retry import MAX_WAIT_MS, wait_ms
from workers.permissions.rules import Action, evaluate
from workers.permissions.shell import Unparsable, commands
from workers.tools.errors import ToolError
from workers.tools.patch import PatchRefused, apply_patch
from workers.tools.replace import EditRefused

PAGE = Path(__file__).parents[2] / "docs" / "agents" / "pure-functions.md"
SHELL = st.text(st.sampled_from("ab $'\"`(){}|&;<>\n\\#=[]!*~-"), max_size=40)
RULES = st.lists(st.tuples(st.text("ab*?", max_size=3), st.text("ab*? ", max_size=4), st.sampled_from([*Action])))


def test_the_page_tells_the_truth():
    ran = doctest.testfile(str(PAGE), module_relative=False, verbose=False)

    assert ran.attempted > 30 and ran.failed == 0


@pytest.mark.parametrize("refusal", [EditRefused, PatchRefused, Unparsable, BadAgent])
def test_every_refusal_is_a_value_error(refusal: type[Exception]):
    assert issubclass(refusal, ValueError)
    assert issubclass(refusal, ToolError) is (refusal in (EditRefused, PatchRefused))


@given(SHELL)
def test_every_command_stands_in_its_text_and_is_allowed_by_its_own_always(text: str):
    with suppress(Unparsable):
        for command in commands(text):
            assert command.text in text
            assert evaluate([("bash", command.always, "allow")], "bash", command.pattern) == "allow"


@given(RULES, st.text("ab", max_size=3), st.lists(st.text("ab ", max_size=4)))
def test_a_decision_is_the_strictest_of_the_last_matches(rules: list, permission: str, patterns: list[str]):
    each = [evaluate(rules, permission, pattern) for pattern in patterns]

    strictest = next((action for action in ("deny", "ask", "allow") if action in each), "ask")
    assert evaluate(rules, permission, patterns) == strictest


@given(st.text(), st.text())
def test_any_template_takes_any_arguments(template: str, arguments: str):
    assert expand(template, arguments).count("\n") >= template.count("\n")


@given(
    st.dictionaries(st.sampled_from(["status", "message", "code", "headers"]), st.text() | st.integers() | st.none())
)
def test_any_error_waits_within_bounds_or_not_at_all(error: dict):
    waited = wait_ms(error, 1, now_ms=0)

    assert waited is None or 2_000 <= waited <= MAX_WAIT_MS


@given(st.text("*@ +-\nabEndPatchBegiFleUpdt:", max_size=80))
def test_a_patch_leaves_the_files_that_went_in(body: str):
    files = {"a": "b\n"}

    with suppress(PatchRefused):
        assert isinstance(apply_patch(files, f"*** Begin Patch\n{body}\n*** End Patch"), dict)
    assert files == {"a": "b\n"}


@given(st.dictionaries(st.from_regex(r"k[a-zA-Z_]{3,12}", fullmatch=True), st.integers(), max_size=4))
def test_a_key_is_an_agents_an_option_or_refused(keys: dict):
    text = "".join(f"{key}: {value}\n" for key, value in keys.items())
    with suppress(BadAgent):
        agent = parse_agent("a", f"---\n{text}---\n")
        assert set(agent.options) <= set(keys)
