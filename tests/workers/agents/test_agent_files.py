"""Agents as files, and the system prompt that they start with."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envelope.budget import Budget
from envelope.scope import allows
from workers.agent.history import open_session, reopen_session
from workers.agent.prompt import Environment, system_prompt
from workers.agent.surroundings import Git, Tree
from workers.agents.registry import builtin, card, parse_agent, remarks
from workers.errors import BadAgent
from workers.permissions.rules import DEFAULTS, Action, Rule, evaluate
from workers.project.instructions import Instruction


def front(**keys: str) -> str:
    lines = {"description": "d", **keys}
    return "\n".join(["---", *(f"{key}: {value}" for key, value in lines.items()), "---", "Do it."])


def test_the_builtin_agents_have_their_modes_and_pools():
    assert {name: (agent.mode, agent.pool) for name, agent in builtin().items()} == {
        "build": ("primary", "build"),
        "compaction": ("primary", "explore"),
        "explore": ("subagent", "explore"),
        "general": ("subagent", "general"),
        "plan": ("primary", "general"),
        "recipe": ("recipe", "build"),
        "title": ("primary", "explore"),
        "verify": ("recipe", "build"),
    }


@pytest.mark.parametrize("name", ["explore", "plan"])
def test_readers_have_no_grant_to_edit(name):
    assert not allows(builtin()[name].auth_scope or (), "edit", "a.py")
    assert allows(builtin()[name].auth_scope or (), "read", "a.py")


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


def test_a_card_has_another_digest_when_its_agent_would_work_otherwise():
    text = "---\ndescription: {}\nmode: primary\ntemperature: {}\n---\n{}"
    first = card(parse_agent("a", text.format("d", 0, "You edit.")))

    assert first.digest == card(parse_agent("a", text.format("other", 0, "You edit."))).digest
    assert first.digest != card(parse_agent("a", text.format("d", 0, "You look."))).digest
    assert first.digest != card(parse_agent("a", text.format("d", 1, "You edit."))).digest


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


def test_keys_that_are_none_of_an_agent_are_options_of_its_model():
    agent = parse_agent("a", front(reasoningEffort="high", options="{seed: 7, top_k: 1}", top_k="5", top_p="0.9"))

    assert agent.options == {"reasoningEffort": "high", "seed": 7, "top_k": 5}
    assert agent.model_options == {"reasoningEffort": "high", "seed": 7, "top_k": 5, "top_p": 0.9}
    assert parse_agent("a", front(variant="low")).variant == "low"


@pytest.mark.parametrize(
    ("key", "written", "hint"),
    [("effort", "hihg", "did you mean 'high'?"), ("variant", "my-own", "known values: none, ")],
)
def test_an_effort_that_no_model_knows_is_told_and_not_sent(key: str, written: str, hint: str):
    agent = parse_agent("a", front(description="d", **{key: written}))
    ((about, fault, said),) = remarks(agent)

    assert (agent.variant, about) == ("", key)
    assert f"{key}: '{written}' is not sent" in fault
    assert hint in said


def test_a_file_needs_no_key_at_all():
    agent = parse_agent("a", "---\n---\nDo it.")

    assert (agent.description, agent.mode, agent.prompt, agent.rules, agent.options) == ("", "all", "Do it.", (), {})


def test_an_agent_answers_to_what_files_call_its_parts():
    agent = parse_agent("a", front(maxSteps="3", disable="true", permission="{edit: deny}"))

    assert (agent.steps, agent.disable, agent.permission) == (agent.max_turns, agent.disabled, agent.rules)
    assert (agent.steps, agent.disable, agent.permission) == (3, True, (Rule("edit", "*", Action.DENY),))


@pytest.mark.parametrize(
    ("keys", "pool"),
    [
        ({}, "build"),
        ({"permission": "{edit: deny}"}, "explore"),
        ({"permission": '{"*": deny, read: allow}'}, "explore"),
        ({"permission": '{"*": deny, edit: allow}'}, "build"),
        ({"scope": '["read:**"]'}, "explore"),
        ({"tools": "Read, Bash"}, "explore"),
        ({"tools": "Read, Write"}, "build"),
        ({"tools": "{write: false}"}, "explore"),
        ({"pool": "mine", "permission": "{edit: deny}"}, "mine"),
    ],
)
def test_an_agent_goes_to_explore_when_it_cannot_edit(keys, pool):
    assert parse_agent("a", front(**keys)).pool == pool


def rules_of(**keys: str) -> list[tuple[str, str, str]]:
    return [(rule.permission, rule.pattern, rule.action) for rule in parse_agent("a", front(**keys)).rules]


@pytest.mark.parametrize(
    ("keys", "rules"),
    [
        ({}, []),
        ({"permission": "deny"}, [("*", "*", "deny")]),
        ({"permission": "{bash: {'*': ask, 'git *': allow}}"}, [("bash", "*", "ask"), ("bash", "git *", "allow")]),
        # all that write files are governed by `edit`, in the order in which they stand
        ({"permission": "{edit: allow, write: deny}"}, [("edit", "*", "allow"), ("edit", "*", "deny")]),
        ({"permission": "{'github_*': ask, my_tool: deny}"}, [("github_*", "*", "ask"), ("my_tool", "*", "deny")]),
        ({"tools": "{write: false, bash: true}"}, [("edit", "*", "deny"), ("bash", "*", "allow")]),
        ({"tools": "{'github_*': false}"}, [("github_*", "*", "deny")]),
        (
            {"tools": "{bash: false, edit: false}", "permission": "{bash: {'ls *': allow}}"},
            [("edit", "*", "deny"), ("bash", "ls *", "allow")],
        ),
        ({"disallowedTools": "Write, WebFetch"}, [("edit", "*", "deny"), ("webfetch", "*", "deny")]),
    ],
)
def test_every_way_to_write_permissions_is_a_list_of_rules(keys, rules):
    assert rules_of(**keys) == rules


@pytest.mark.parametrize(
    ("written", "tools"),
    [
        ("Read, Grep", ("read", "grep")),
        ("Read,Grep, Read", ("read", "grep")),
        ("[read, 'todo*']", ("read", "todo*")),
        ("'*'", ("*",)),
        ("LS, MultiEdit, Agent, AskUserQuestion", ("list", "edit", "task", "question")),
        ("mcp__github__create_issue, Own_Tool", ("github_create_issue", "Own_Tool")),
        ("{write: false}", ("*",)),
    ],
)
def test_tools_are_named_in_lists_or_texts_and_switched_in_maps(written, tools):
    assert parse_agent("a", front(tools=written)).tools == tools


def test_a_file_for_another_product_becomes_an_agent():
    text = """\ufeff---\r
name: code-reviewer\r
description: Use this agent when code was written. Examples: user: "done" assistant: "let me look"\r
tools: Read, Grep, Glob\r
model: sonnet\r
color: blue\r
maxTurns: 9\r
---\r
You review.\r
\r
---\r
Be kind.\r
"""
    agent = parse_agent("reviewer", text)

    assert (agent.name, agent.mode, agent.pool, agent.model) == ("code-reviewer", "all", "explore", "")
    assert agent.description == 'Use this agent when code was written. Examples: user: "done" assistant: "let me look"'
    assert (agent.tools, agent.color, agent.max_turns) == (("read", "grep", "glob"), "blue", 9)
    assert agent.prompt == "You review.\n\n---\nBe kind."


def test_a_file_may_only_take_an_agent_away():
    assert parse_agent("build", "---\ndisable: true\n---\n").disabled
    assert not parse_agent("build", front(disable="false")).disabled


def test_a_fence_inside_of_a_value_does_not_end_the_keys():
    agent = parse_agent("a", "---\ndescription: |\n  one\n  ---\n  two\nmodel: p/m\n---\nBody")

    assert (agent.description, agent.model, agent.prompt) == ("one\n---\ntwo\n", "p/m", "Body")


@given(st.text(st.sampled_from("abc:-[]{}'\"&*!|># \n\t\0\ud800é9"), max_size=60))
def test_whatever_stands_in_a_file_is_an_agent_or_refused(front_matter):
    with suppress(BadAgent):
        parse_agent("mine", f"---\ndescription: d\n{front_matter}\n---\n")


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        (front(max_turn="3"), "unknown key 'max_turn'", "max_turns"),
        (front(descripton="x"), "unknown key 'descripton'", "did you mean 'description'?"),
        (front(permissions="{edit: deny}"), "unknown key 'permissions'", "did you mean 'permission'?"),
        (front(prompt="x"), "unknown key 'prompt'", "below the second"),
        (front(permissionMode="paln"), "permissionMode: ", "did you mean 'plan'?"),
        (front(hooks="{PreToolUse: [{matcher: Bash}]}"), "hooks: PreToolUse can refuse calls", "under `permission`"),
        (front(background="'yes'"), "background", ""),
        (front(reasoningEffort=""), "reasoningEffort: has no value", "remove the line"),
        (front(top_p="1.1"), "top_p", ""),
        (front(options="high"), "options", ""),
        (front(maxTurn="3"), "unknown key 'maxTurn'", "did you mean 'maxTurns'?"),
        (front(mode="boss"), "mode", "known values: primary"),
        (front(mode="subagnet"), "mode", "did you mean 'subagent'?"),
        (front(mode="[]"), "mode", "known values"),
        (front(color="#00ff00"), "color: has no value", "quote"),
        (front(steps="0"), "steps: ", "correct the value of steps"),
        (front(maxTurns="'seven'"), "maxTurns: ", ""),
        (front(steps="'0'"), "steps: ", ""),
        (front(max_turns="true"), "max_turns: ", ""),
        (front(steps="7", max_turns="8"), "as 'steps' and as 'max_turns'", "keep one"),
        (front(temperature="hot"), "temperature", ""),
        (front(temperature="2.1"), "temperature", ""),
        (front(temperature=".nan"), "temperature", ""),
        (front(hidden="'no'"), "hidden", ""),
        (front(disable="1"), "disable", ""),
        (front(model="two words"), "model", ""),
        (front(name="'../x y'"), "name", ""),
        (front(permission="{edit: perhaps}"), "permission: edit: 'perhaps' is none of allow, ask, deny", ""),
        (front(permission="{edit: denny}"), "did you mean 'deny'?", ""),
        (front(permission="{edti: deny}"), "did you mean 'edit'?", ""),
        (front(permission="{bash: {'git *': alow}}"), "bash.git *: 'alow'", ""),
        (front(permission="{edit: false}"), "edit: False is none of", ""),
        (front(permission="[deny]"), "permission: ['deny'] is none of", ""),
        (front(tools="Raed, Grep"), "tools: 'Raed' is no tool; did you mean 'read'?", ""),
        (front(tools="{wirte: false}"), "did you mean 'write'?", ""),
        (front(tools="{write: deny}"), "tools: write: write true or false, not 'deny'", ""),
        (front(tools="Read, Bash(git log:*)"), "names a part of a tool", "permission: {bash:"),
        (front(tools="[]"), "tools: write a list", ""),
        (front(tools="[1]"), "tools: 1 is no name", ""),
        (front(tools=""), "tools: has no value", "remove the line"),
        (front(disallowedTools="Raed"), "did you mean 'read'?", ""),
        (front(fixed="{edit: allow}"), "denies only", ""),
        (front(scope='["read"]'), "scope", ""),
        ("Just a prompt.", "no front matter", "---"),
        ("---\ndescription: d\n", "no front matter", "---"),
        ("---\n- a list\n---\n", "no map", "key: value"),
        ("---\ndescription: d\nscope: [a: b: c\n---\n", "not YAML in line 3", "quote"),
        ("---\nmode: all\n\ttools: x\n---\n", "not YAML in line 3", "quote"),
        ("---\nmode: all\ndescription: d\nmode: primary\n---\n", "in line 4: the key 'mode' a second time", ""),
        ("---\npermission:\n  edit: deny\n  edit: allow\n---\n", "in line 4: the key 'edit' a second time", ""),
        ("---\npool: &a x\nmodel: *a\n---\n", "in line 3: an alias", ""),
        ("---\ndescription: 2026-13-45\n---\n", "not YAML", ""),
        ("---\npool: !!python/object/apply:os.getcwd []\n---\n", "not YAML in line 2", ""),
        ("---\npool: " + "[" * 5000 + "]" * 5000 + "\n---\n", "nested too deeply", ""),
        ("---\npool: " + "x" * 70_000 + "\n---\n", "too long", "below the second"),
    ],
)
def test_a_file_that_is_wrong_says_what_and_how_to_mend_it(text, message, hint):
    with pytest.raises(BadAgent) as refused:
        parse_agent("mine", text)

    assert message in refused.value.message and "mine" in refused.value.message
    assert hint in refused.value.hint


def test_a_number_in_quotes_is_a_number():
    agent = parse_agent("a", front(steps='"10"', temperature='"0.5"', top_p='"1"'))

    assert (agent.max_turns, agent.temperature, agent.top_p) == (10, 0.5, 1)


def told_of(**keys: str) -> dict[str, str]:
    return {key: hint for key, _, hint in remarks(parse_agent("a", front(**keys)))}


def test_keys_of_claude_code_are_followed_where_they_mean_something_here():
    agent = parse_agent(
        "a", front(effort="xhigh", skills="api, sql", background="true", isolation="worktree", permissionMode="manual")
    )

    assert (agent.variant, agent.skills, agent.in_background) == ("xhigh", ("api", "sql"), True)
    assert remarks(agent) == []
    assert parse_agent("a", front(skills="[api]")).skills == ("api",)


def test_an_agent_in_plan_mode_edits_nothing_and_one_that_never_asks_says_so():
    plan, silent = parse_agent("a", front(permissionMode="plan")), parse_agent("a", front(permissionMode="dontAsk"))

    assert evaluate(plan.fixed, "edit", ["a.py"]).action is Action.DENY
    assert plan.pool == "explore"
    assert silent.never_asks and not plan.never_asks


def test_keys_of_claude_code_that_are_not_followed_are_told_and_refuse_nothing():
    keys = told_of(
        memory="user",
        hooks="{PostToolUse: [{matcher: Edit}]}",
        mcpServers="[github]",
        isolation="vm",
        initialPrompt="Hello",
        permissionMode="bypassPermissions",
        color="gren",
    )

    assert set(keys) == {"memory", "hooks", "mcpServers", "isolation", "initialPrompt", "permissionMode", "color"}
    assert keys["color"] == "did you mean 'green'?"
    assert parse_agent("a", front(color="'#12'")).color == ""
    assert told_of(mcpServers="[]", permissionMode="default") == {}


@pytest.mark.parametrize("tools", ["Read, Agent(explore, api-reviewer)", "[Read, 'Task(explore, api-reviewer)']"])
def test_the_agents_that_may_be_started_stand_in_brackets(tools):
    agent = parse_agent("a", front(tools=tools))

    assert agent.tools == ("read", "task")
    for name, action in (("explore", "allow"), ("api-reviewer", "allow"), ("general", "deny")):
        assert evaluate(agent.rules, "task", name) == action


HERE = Environment("2026-11-21", True, "qwen3", git=Git("abc123"), tree=Tree(("a.py", "b.py"), True))


HERE = Environment("2026-11-21", True, "qwen3", git=Git("abc123"), tree=Tree(("src/ (2)", "a.py, b.py"), True))
TABS = [Instruction("/workspace/AGENTS.md", "Use tabs.")]


def test_a_system_prompt_says_who_and_where_and_what_the_project_wants():
    text = system_prompt(builtin()["plan"], HERE, instructions=TABS)

    assert text.startswith(builtin()["plan"].prompt)
    for part in (
        "/workspace (writable)",
        "2026-11-21",
        "abc123",
        "Files (in part), and",
        "src/ (2)\na.py, b.py",
        "Use tabs.",
    ):
        assert part in text
    assert text == system_prompt(builtin()["plan"], HERE, instructions=TABS)  # a prefix that providers can cache


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


@pytest.mark.parametrize("value", ["!!bool x", "!!timestamp abc", "!!int z"])
def test_a_tag_that_its_value_does_not_fit_is_refused(value: str):
    with pytest.raises(BadAgent, match="not YAML"):
        parse_agent("a", f"---\ndescription: {value}\n---\nhi")
