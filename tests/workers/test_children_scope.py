"""What a subagent gets: never more than its caller has."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from envelope.budget import Budget, Metrics, Usage
from envelope.scope import allows, narrow
from workers.subagents.children import child_budget, child_scope
from workers.tools.registry import all_tools

TOOLS = tuple(sorted(all_tools()))
EXPLORE = ("read:**", "grep:**", "bash:**")


def test_an_agent_without_a_scope_inherits_its_callers_without_task():
    assert child_scope(("read:src/**", "task:explore", "edit:a"), None, TOOLS) == ("read:src/**", "edit:a")


def test_an_agents_own_scope_is_cut_to_what_its_caller_holds():
    assert child_scope(("read:src/**", "bash:ls *", "edit:**"), EXPLORE, TOOLS) == ("read:src/**", "bash:ls *")
    assert child_scope(("read:**", "grep:**"), ("read:docs/**",), TOOLS) == ("read:docs/**",)


def test_a_grant_for_all_tools_is_spelled_out_without_task():
    scope = child_scope(("*:**",), None, TOOLS)

    assert "edit:**" in scope and not allows(scope, "task", "explore")
    assert narrow(("*:**",), scope) == scope


GRANTS = st.lists(
    st.builds(
        lambda tool, pattern: f"{tool}:{pattern}",
        st.sampled_from(["read", "edit", "task", "*", "t*", "bash"]),
        st.text("a*/", min_size=1, max_size=4),
    ),
    max_size=4,
).map(tuple)


@given(caller=GRANTS, wanted=st.none() | GRANTS)
def test_a_childs_scope_is_always_within_its_callers(caller: tuple[str, ...], wanted: tuple[str, ...] | None):
    scope = child_scope(caller, wanted, TOOLS)

    assert narrow(caller, scope) == scope
    assert not allows(scope, "task", "a")


def test_a_child_gets_half_of_what_its_caller_has_left():
    spent = Metrics(usage=Usage(input_tokens=100), cost_microusd=400)

    budget = child_budget(Budget(max_cost_microusd=1000, max_tokens=300, max_turns=7), spent)

    assert budget == Budget(max_cost_microusd=300, max_tokens=100, max_turns=7)
    assert child_budget(Budget(max_cost_microusd=100), spent).max_cost_microusd == 0
    assert child_budget(Budget(), spent) == Budget()
