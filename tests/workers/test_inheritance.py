"""What is handed down to subagents, apart from any worker."""

from __future__ import annotations

from dataclasses import replace

import pytest

from envelope.agent_params import AgentParams
from envelope.ids import new_task_id, new_trace_id
from envelope.messages import TaskInput, TaskRequest
from workers.agents.base import Agent
from workers.permissions.guard import Guard
from workers.permissions.rules import Rule, evaluate, parse_rules
from workers.subagents.inheritance import as_far_as_it_denies, as_its_caller, guard_of, handed_down, levels_below
from workers.tools.base import Target

EVERYTHING = ("*:**",)
RULES = parse_rules({"bash": {"*": "deny", "git *": "ask", "git push *": "deny"}, "edit": "deny"})


def agent(rules: tuple[Rule, ...], fixed: tuple[Rule, ...] = ()) -> Agent:
    return Agent("a", "d", "all", "general", rules=rules, fixed=fixed)


def request(params: AgentParams) -> TaskRequest:
    return TaskRequest(
        task_id=new_task_id(),
        trace_id=new_trace_id(),
        sender="test",
        recipient="general",
        agent="a",
        input=TaskInput(params=params.model_dump(mode="json", exclude_defaults=True)),
        auth_scope=EVERYTHING,
        deadline_ms=1000,
        created_at_ms=0,
    )


@pytest.mark.parametrize(
    ("permission", "pattern", "is_denied"),
    [
        ("bash", "ls", True),
        ("bash", "git log", False),  # what the caller is asked about, its subagent's own rules decide
        ("bash", "git push x", True),
        ("read", "a", False),
        ("webfetch", "https://a", True),
    ],
)
def test_what_an_agent_is_denied_its_subagent_is_denied(permission: str, pattern: str, is_denied: bool):
    told = handed_down(Guard(EVERYTHING, RULES), agent(RULES, fixed=parse_rules({"webfetch": "deny"})), 1)

    child = guard_of(request(told), agent(parse_rules("allow")))

    assert (child.check([Target(permission, pattern)]) is not None) is is_denied
    assert child.hides("edit") and child.bans("write") and not child.hides("bash")


def test_lists_that_are_the_same_are_handed_down_once():
    once = guard_of(request(handed_down(Guard(EVERYTHING, RULES), agent(RULES), 3)), agent(RULES))

    twice = handed_down(once, agent(RULES), 2)

    assert len(twice.inherited_denies) == 1 and twice.subagent_depth == 1


def test_what_stands_before_the_first_deny_is_left_out():
    rules = parse_rules({"read": {"*": "allow", "*.env": "ask", "*.key": "deny", "a.key": "allow"}})

    short = as_far_as_it_denies(rules)

    assert [rule.pattern for rule in short] == ["*.key", "a.key"]
    assert evaluate(short, "read", ["b.key"]).action == evaluate(rules, "read", ["b.key"]).action


@pytest.mark.parametrize(("told", "setting", "levels"), [(None, 2, 2), (1, 2, 1), (3, 2, 2), (0, 5, 0), (None, 0, 0)])
def test_no_worker_lets_agents_go_deeper_than_its_own_setting_or_their_caller(told, setting, levels):
    assert levels_below(request(AgentParams(subagent_depth=told)), setting) == levels


def test_a_subagent_thinks_as_hard_as_its_caller_unless_it_has_its_own_way():
    caller = replace(agent(RULES), variant="high")
    told = request(handed_down(Guard(EVERYTHING, RULES), caller, 1))

    assert as_its_caller(agent(RULES), told).variant == "high"
    assert as_its_caller(replace(agent(RULES), variant="low"), told).variant == "low"
    assert as_its_caller(replace(agent(RULES), model="other/model"), told).variant == ""
    assert handed_down(Guard(EVERYTHING, RULES), as_its_caller(agent(RULES), told), 0).variant == "high"
