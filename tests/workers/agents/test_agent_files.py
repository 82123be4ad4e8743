"""Agents as files, and the system prompt that they start with."""

from __future__ import annotations

import pytest

from envelope.budget import Budget
from envelope.scope import allows
from workers.agent.history import open_session, reopen_session
from workers.agent.prompt import Environment, system_prompt
from workers.agents.registry import builtin, card, parse_agent
from workers.errors import BadAgent
from workers.permissions.rules import DEFAULTS, Action, evaluate


def front(**keys: str) -> str:
    lines = {"description": "d", **keys}
    return "\n".join(["---", *(f"{key}: {value}" for key, value in lines.items()), "---", "Do it."])


def test_the_builtin_agents_have_their_modes_and_pools():
    assert {name: (agent.mode, agent.pool) for name, agent in builtin().items()} == {
        "build": ("primary", "build"),
        "explore": ("subagent", "explore"),
        "general": ("subagent", "general"),
        "plan": ("primary", "general"),
        "recipe": ("recipe", "build"),
        "verify": ("recipe", "build"),
    }


@pytest.mark.parametrize("name", ["explore", "plan"])
def test_readers_have_no_grant_to_edit(name):
    assert not allows(builtin()[name].auth_scope, "edit", "a.py")
    assert allows(builtin()[name].auth_scope, "read", "a.py")


def test_plan_never_edits_and_no_rule_lifts_that():
    plan = builtin()["plan"]

    assert evaluate(plan.fixed, "edit", ["src/a.py"]).action is Action.DENY


@pytest.mark.parametrize("name", ["build", "explore", "general", "plan"])
def test_no_builtin_agent_reads_secrets_unasked(name):
    rules = DEFAULTS + builtin()[name].rules

    assert evaluate(rules, "read", [".env"]).action is Action.ASK
    assert evaluate(rules, "read", ["src/a.py"]).action is Action.ALLOW


def test_general_takes_its_callers_scope():
    assert builtin()["general"].auth_scope is None


def test_every_agent_with_a_model_has_a_prompt_and_a_card():
    for agent in builtin().values():
        assert bool(agent.prompt) is (agent.mode != "recipe")
        assert card(agent).description == agent.description


def test_a_file_becomes_an_agent():
    agent = parse_agent(
        "team/reviewer",
        front(mode="subagent", steps="7", temperature="0.3", scope='["read:**"]', permission="{edit: deny, bash: ask}"),
    )

    assert (agent.name, agent.mode, agent.max_turns, agent.temperature) == ("team/reviewer", "subagent", 7, 0.3)
    assert [(rule.permission, rule.action) for rule in agent.rules] == [("edit", "deny"), ("bash", "ask")]
    assert agent.prompt == "Do it."


@pytest.mark.parametrize(
    ("keys", "pool"),
    [
        ({}, "build"),
        ({"permission": "{edit: deny}"}, "explore"),
        ({"permission": '{"*": deny, read: allow}'}, "explore"),
        ({"permission": '{"*": deny, edit: allow}'}, "build"),
        ({"scope": '["read:**"]'}, "explore"),
        ({"pool": "mine", "permission": "{edit: deny}"}, "mine"),
    ],
)
def test_an_agent_goes_to_explore_when_it_cannot_edit(keys, pool):
    assert parse_agent("a", front(**keys)).pool == pool


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        (front(max_turn="3"), "unknown key 'max_turn'", "max_turns"),
        (front(promt="x"), "unknown key 'promt'", "known keys"),
        (front(mode="boss"), "mode", "known keys"),
        (front(permission="{edit: perhaps}"), "permission", ""),
        (front(fixed="{edit: allow}"), "denies only", ""),
        (front(scope='["read"]'), "scope", ""),
        ("Just a prompt.", "no front matter", "---"),
        ("---\ndescription: d\n", "no front matter", "---"),
        ("---\n- a list\n---\n", "no map", "key: value"),
        ("---\na: b: c\n---\n", "not YAML", "quote"),
        ("---\nmode: all\n---\n", "description", ""),
    ],
)
def test_a_file_that_is_wrong_says_what_and_how_to_mend_it(text, message, hint):
    with pytest.raises(BadAgent) as refused:
        parse_agent("mine", text)

    assert message in refused.value.message and "mine" in refused.value.message
    assert hint in refused.value.hint


HERE = Environment("2026-11-21", "abc123", True, ("a.py", "b.py"), True, ("AGENTS.md", "Use tabs."))


def test_a_system_prompt_says_who_and_where_and_what_the_project_wants():
    text = system_prompt(builtin()["build"], HERE)

    assert text.startswith(builtin()["build"].prompt)
    for part in ("/workspace (writable)", "2026-11-21", "abc123", "a.py\nb.py\n(only the first 2)", "Use tabs."):
        assert part in text
    assert text == system_prompt(builtin()["build"], HERE)  # a prefix that providers can cache


def test_a_session_has_a_limit_of_turns_even_when_nobody_set_one():
    def limit(agent_text: str, budget: Budget) -> int | None:
        agent = parse_agent("a", agent_text)
        return open_session(agent, model="m", system="s", prompt="p", budget=budget).budget.max_turns

    assert limit(front(), Budget()) == 100
    assert limit(front(), Budget(max_turns=300)) == 300
    assert limit(front(max_turns="5"), Budget(max_turns=300)) == 5
    assert limit(front(max_turns="5"), Budget(max_turns=2)) == 2


def test_a_session_that_is_taken_up_again_counts_from_nothing():
    agent = builtin()["build"]
    first = open_session(agent, model="m", system="s", prompt="p", budget=Budget(max_turns=3))
    spent = first.model_copy(update={"turn": 3, "cost_microusd": 9, "changes": "sha256:0", "read_digests": {"a": "1"}})

    again = reopen_session(spent, agent, model="n", prompt="go on", budget=Budget(max_turns=4))

    assert (again.turn, again.cost_microusd, again.budget.max_turns, again.model) == (0, 0, 4, "n")
    assert (again.changes, again.read_digests) == ("sha256:0", {"a": "1"})
    assert [message.content for message in again.messages] == ["s", "p", "go on"]
