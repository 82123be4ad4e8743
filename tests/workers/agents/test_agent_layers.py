"""Layers of agent files: which counts, what is wrong with one, and how little a stranger's may do."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envelope.scope import allows
from workers.agents.folders import MAX_FILE_BYTES, MAX_FILES, files_below
from workers.agents.generating import accepted
from workers.agents.layers import MAX_RULES, AgentFile, Known, builtin_agents, with_files
from workers.agents.registry import builtin, card, problems
from workers.agents.trust import narrowed
from workers.errors import BadAgent, BadInput
from workers.permissions.ceiling import STRICTNESS, under
from workers.permissions.guard import Guard
from workers.permissions.rules import DEFAULTS, Action, Rule, evaluate
from workers.tools.base import Target
from workers.tools.offering import explain
from workers.tools.registry import offered
from workers.web.access import WebAccess

BUILTIN = Known(builtin())


def file(name: str, *, path: str = "", body: str = "Do it.", **keys: str) -> AgentFile:
    lines = {"description": "d", **keys}
    text = "\n".join(["---", *(f"{key}: {value}" for key, value in lines.items() if value), "---", body])
    return AgentFile(path or f".muster/agents/{name}.md", name, text.encode())


def layered(*files: AgentFile, trusted: bool = True, below: Known = BUILTIN) -> Known:
    return with_files(below, files, trusted=trusted)


def test_a_later_file_replaces_an_earlier_one_of_its_name():
    known = layered(file("a", body="First."), file("b"), file("a", path=".muster/agents/a.md", body="Last."))

    assert known.named("a").prompt == "Last."
    assert (known.named("a").origin, known.named("b").origin) == (".muster/agents/a.md", ".muster/agents/b.md")
    assert (known.faults, card(known.named("a")).origin) == ((), ".muster/agents/a.md")


def test_of_a_builtin_agent_a_file_changes_what_it_names_and_nothing_else():
    plain = builtin()["build"]
    known = layered(AgentFile("u/build.md", "build", b"---\nmodel: p/big\npermission: {webfetch: ask}\n---\n"))
    again = layered(AgentFile("r/build.md", "build", b"---\ntemperature: 0.5\n---\nBe brief."), below=known)

    changed = known.named("build")
    assert changed.rules == (*plain.rules, Rule("webfetch", "*", Action.ASK))
    same = replace(plain, model="p/big", rules=changed.rules, origin="u/build.md")
    assert replace(changed, named_fields=frozenset()) == replace(same, named_fields=frozenset())
    last = again.named("build")
    assert (last.model, last.temperature, last.prompt, last.rules) == ("p/big", 0.5, "Be brief.", changed.rules)


def test_an_override_of_a_reader_keeps_its_rules_and_its_grants():
    explore = layered(AgentFile("x", "explore", b"---\neffort: high\n---\n")).named("explore")

    assert (explore.variant, explore.auth_scope) == ("high", builtin()["explore"].auth_scope)
    assert evaluate((*DEFAULTS, *explore.rules), "edit", "a.py") == "deny"


def test_a_strangers_override_keeps_what_it_may_not_change():
    text = b"---\nmodel: p/big\ntemperature: 0.1\npermission: {bash: deny, plan_exit: allow}\n---\n"
    build = layered(AgentFile("x", "build", text), trusted=False).named("build")

    assert (build.model, build.temperature, build.prompt) == ("", 0.1, builtin()["build"].prompt)
    assert [str(evaluate(build.rules, name, "x")) for name in ("bash", "plan_exit", "question")] == [
        "deny",
        "deny",
        "allow",
    ]


ASKS_FIRST = (Rule("bash", "*", Action.ASK), Rule("webfetch", "*", Action.DENY))


def test_what_the_user_says_of_all_agents_stands_above_builtin_rules_and_below_files():
    below = builtin_agents(ASKS_FIRST)
    lifting = {"permission": "{bash: {'ls *': allow}}"}
    known = layered(file("mine", **lifting), file("explore", **lifting), below=below)

    for name in ("build", "general", "mine", "explore"):
        rules = (*DEFAULTS, *known.named(name).rules)
        assert evaluate(rules, "bash", "rm x") == "ask"
        assert evaluate(rules, "webfetch", "http://x") == "deny"
        assert evaluate(rules, "bash", "ls x") == ("allow" if name in ("mine", "explore") else "ask")
    assert known.named("verify").rules == builtin()["verify"].rules


@pytest.mark.parametrize("name", ["mine", "build"])
def test_a_stranger_lifts_nothing_of_what_the_user_says_of_all_agents(name):
    stranger = file(name, permission="{bash: allow, webfetch: allow, read: deny}")
    agent = layered(stranger, trusted=False, below=builtin_agents(ASKS_FIRST)).named(name)

    rules = (*DEFAULTS, *agent.rules)
    assert [str(evaluate(rules, each, "x")) for each in ("bash", "webfetch", "read")] == ["ask", "deny", "deny"]


def test_an_agent_that_never_asks_is_denied_what_it_would_ask_for():
    below = builtin_agents(ASKS_FIRST)
    rules = layered(file("mine", permissionMode="dontAsk"), below=below).named("mine").rules

    assert [
        str(evaluate((*DEFAULTS, *rules), *call)) for call in (("read", ".env"), ("bash", "ls"), ("read", "a"))
    ] == [
        "deny",
        "deny",
        "allow",
    ]


def test_a_disabled_agent_is_nobodys_and_says_by_which_file():
    known = layered(AgentFile("mine/build.md", "build", b"---\ndisable: true\n---\n"))

    assert "build" not in known.agents
    with pytest.raises(BadInput, match=r"mine/build\.md: the agent 'build' is disabled"):
        known.named("build")


def test_a_broken_file_is_a_fault_and_only_its_own_agent_is_lost():
    known = layered(file("good"), file("broken", mode="bad"), AgentFile("x/binary.md", "binary", b"---\n\xff"))

    assert known.named("good").prompt == "Do it."
    assert [(fault.path, fault.key) for fault in known.faults] == [
        (".muster/agents/broken.md", "mode"),
        ("x/binary.md", ""),
    ]
    with pytest.raises(BadInput, match="mode") as refused:
        known.named("broken")
    assert refused.value.hint


def test_a_broken_file_does_not_stand_in_for_the_agent_that_it_would_replace():
    with pytest.raises(BadInput, match="mode"):
        layered(file("build", mode="bad")).named("build")


def test_an_odd_file_is_an_agent_and_people_are_told():
    known = layered(file("a", mood="bad", top_k="5"), file("b", description=""))

    assert known.named("a").options == {"mood": "bad", "top_k": 5}
    assert [(fault.key, fault.message) for fault in known.faults] == [
        ("mood", "agent 'a' has an unknown key 'mood', which no model is sent"),
        ("description", "agent 'b': description: is missing, so nobody can tell when to use it"),
    ]
    assert known.faults[0].hint == "did you mean 'mode'?"


def test_a_strangers_agent_sets_no_options_of_a_model():
    known = layered(file("a", reasoningEffort="high", variant="high", top_p="0.5"), trusted=False)

    assert known.named("a").model_options == {"top_p": 0.5}
    assert "options of the model" in known.faults[0].message


def test_a_good_file_stands_over_a_broken_one():
    assert layered(file("a", mode="bad"), file("a")).named("a").prompt == "Do it."


@pytest.mark.parametrize("trusted", [True, False])
@pytest.mark.parametrize("name", ["verify", "recipe"])
def test_nobody_replaces_what_decides_whether_a_change_is_accepted(name, trusted):
    known = layered(file(name, mode="primary"), AgentFile("x", name, b"---\ndisable: true\n---\n"), trusted=trusted)

    assert known.named(name) is builtin()[name]
    assert len(known.faults) == 2


def test_no_agent_has_the_name_of_a_driver_and_who_wants_it_hears_why():
    with pytest.raises(BadInput, match="the agent 'batch' is the platform's own") as refused:
        layered(file("batch")).named("batch")

    assert refused.value.hint == "give yours another name"


@pytest.mark.parametrize(
    ("written", "message"),
    [
        (file("a", scope="[]"), "scope of agent 'a' is empty"),
        (file("ä"), "no task can name"),
        (file("a" * 101), "no task can name"),
        (file("a", permission="{" + ", ".join(f"bash{n}*: deny" for n in range(MAX_RULES + 1)) + "}"), "more than 200"),
        (AgentFile("p", "a", b"no front matter"), "no front matter"),
    ],
)
def test_a_file_that_no_task_could_use_is_refused(written, message):
    known = layered(written)

    assert message in known.faults[0].message
    assert written.name not in known.agents


def test_whoever_replaces_a_reader_never_edits_either():
    for trusted in (True, False):
        plan = layered(file("plan", permission="{edit: allow}"), trusted=trusted).named("plan")
        assert evaluate(plan.fixed, "edit", ["a.py"]).action is Action.DENY


# --- a repository that nobody trusts ---

GREEDY = {
    "mode": "primary",
    "model": "costly/model",
    "pool": "somebody_elses",
    "scope": '["*:**"]',
    "permission": '{"*": allow, bash: {"*": allow}, external_directory: allow, read: {"*": allow, "*.env": allow}, '
    "question: allow, plan_exit: allow, doom_loop: allow}",
}  # fmt: skip
TARGETS = [
    *(Target("read", path) for path in ("a.py", ".env", "x/.env.local", "x/.env.example")),
    *(Target("bash", command) for command in ("ls", "rm -rf /", "git push")),
    *(Target(name, "*") for name in ("bash_unparsed", "doom_loop", "question", "plan_enter", "plan_exit", "todowrite")),
    *(Target("external_directory", folder) for folder in ("/etc/*", "/tmp/x/*")),
    *(Target(name, "x") for name in ("edit", "webfetch", "websearch", "task", "skill", "github_issue")),
]


def strictness(rules, target: Target) -> int:
    return STRICTNESS.index(evaluate(rules, target.permission, [target.pattern]).action)


@pytest.mark.parametrize("name", ["mine", "build", "plan", "explore", "general"])
@pytest.mark.parametrize("mode", ["primary", "subagent", "all"])
def test_an_untrusted_file_that_allows_everything_gains_nothing(name, mode):
    known = layered(file(name, **{**GREEDY, "mode": mode}), trusted=False)
    agent, kind = known.named(name), builtin().get(name) or builtin()["general" if mode == "subagent" else "build"]

    for target in TARGETS:
        assert strictness((*DEFAULTS, *agent.rules), target) >= strictness((*DEFAULTS, *kind.rules), target), target
        full = Guard(agent.auth_scope or ("*:**",), (*DEFAULTS, *agent.rules), agent.fixed)
        if Guard(kind.auth_scope or ("*:**",), (*DEFAULTS, *kind.rules), kind.fixed).check([target]):
            assert full.check([target])
    assert agent.model == ""
    assert agent.pool == kind.pool
    assert set(agent.auth_scope or ()) <= set(kind.auth_scope or ("*:**",))
    [fault] = known.faults
    assert "is not trusted" in fault.message and "costly/model" in fault.message and "muster trust" in fault.hint


def test_a_trusted_file_is_followed():
    agent = layered(file("mine", **GREEDY)).named("mine")

    assert (agent.model, agent.auth_scope) == ("costly/model", ("*:**",))
    assert evaluate((*DEFAULTS, *agent.rules), "read", [".env"]).action is Action.ALLOW


def test_an_untrusted_file_that_only_narrows_loses_nothing():
    keys = {"permission": "{bash: {'*': deny, 'git *': allow}, webfetch: ask}", "tools": "Read, Bash"}
    known = layered(file("mine", scope='["bash:git *", "read:src/**"]', **keys), trusted=False)
    agent = known.named("mine")

    assert known.faults == ()
    assert agent.auth_scope == ("bash:git *", "read:src/**")
    for command, action in (("git log", Action.ALLOW), ("ls", Action.DENY)):
        assert evaluate(agent.rules, "bash", [command]).action is action
    assert evaluate(agent.rules, "webfetch", ["x"]).action is Action.ASK


def test_an_untrusted_agent_of_which_no_grant_is_left_is_refused_and_not_given_everything():
    with pytest.raises(BadInput, match="nothing of its scope"):
        layered(file("mine", mode="primary", scope='["elsewhere:**"]'), trusted=False).named("mine")


def test_no_way_out_of_the_sandbox_is_opened_by_a_stranger():
    scope = '["bash:**", "network:elsewhere.example", "credential:forge"]'
    known = layered(file("mine", mode="subagent", scope=scope), trusted=False)

    assert known.named("mine").auth_scope == ("bash:**",)
    [fault] = known.faults
    assert "network:elsewhere.example" in fault.message and "credential:forge" in fault.message


def test_an_untrusted_file_replaces_nothing_of_the_users():
    users = layered(
        file("reviewer", path="/home/me/reviewer.md", body="Mine."),
        AgentFile("/home/me/explore.md", "explore", b"---\ndisable: true\n---\n"),
    )
    strangers = (file("reviewer", body="Theirs."), file("explore", body="Theirs."))

    known = layered(*strangers, below=users, trusted=False)
    assert known.named("reviewer").prompt == "Mine."
    assert "explore" not in known.agents
    assert [fault.name for fault in known.faults] == ["reviewer", "explore"]
    assert layered(*strangers, below=users).named("reviewer").prompt == "Theirs."


words = st.sampled_from(["*", "**", "a", "b", "a*", "*b", "a?", "*a*", "ab", "a *", "git *"])
rules = st.lists(st.builds(Rule, words, words, st.sampled_from(Action)), max_size=6)


@given(ceiling=rules, own=rules, permission=st.text("ab git", max_size=4), pattern=st.text("ab git", max_size=4))
def test_rules_under_a_ceiling_are_never_freer_than_either(ceiling, own, permission, pattern):
    ceiling, target = [Rule("*", "*", Action.ALLOW), *ceiling], Target(permission, pattern)
    both = under(ceiling, own)
    said = any(evaluate([rule], permission, [pattern]).rule for rule in own)  # the file is silent about everything else

    assert strictness(both, target) >= strictness(ceiling, target)
    assert not said or strictness(both, target) >= strictness(own, target)


@given(own=rules)
def test_rules_under_the_defaults_are_what_the_file_says_where_these_allow(own):
    target = Target("bash", "ls")

    assert strictness(under(DEFAULTS, own), target) == (
        strictness(own, target) if any(evaluate([rule], "bash", ["ls"]).rule for rule in own) else 0
    )


def test_hostile_scopes_and_rules_cost_little():
    pattern = "*a" + "?" * 60
    rules = tuple(Rule("read", f"{pattern}{n}", Action.ALLOW) for n in range(MAX_RULES))
    agent = replace(
        builtin()["build"], name="x", rules=rules, auth_scope=tuple(f"read:{pattern}{n}" for n in range(99))
    )

    stranger, _ = narrowed(agent, builtin())  # the test's own time limit is what this asserts, beside the next line
    assert allows(stranger.auth_scope or (), "read", "a" * 61 + "3")


# --- folders of this machine ---


def test_agent_files_are_found_below_a_folder_and_no_link_leads_out(tmp_path: Path):
    folder, secret = tmp_path / "agents", tmp_path / "secret.md"
    (folder / "team").mkdir(parents=True)
    secret.write_text("secret")
    (folder / "a.md").write_text("A")
    (folder / "team" / "b.md").write_text("B")
    (folder / "note.txt").write_text("no agent")
    (folder / "large.md").write_bytes(b"x" * (MAX_FILE_BYTES + 1))
    (folder / "out.md").symlink_to(secret)
    (folder / "in.md").symlink_to(folder / "a.md")
    (folder / "dangling.md").symlink_to(folder / "none.md")

    files, faults = files_below(folder)

    assert {file.name: file.content for file in files} == {"a": b"A", "team/b": b"B", "in": b"A"}
    assert [(fault.name, "larger than 256 KiB" in fault.message) for fault in faults] == [("large", True)]


def test_a_folder_that_is_not_there_holds_nothing_and_one_that_is_too_full_says_so(tmp_path: Path):
    assert files_below(tmp_path / "none") == ([], [])
    for number in range(MAX_FILES + 2):
        (tmp_path / f"{number:03}.md").write_text("x")

    files, faults = files_below(tmp_path)
    assert (len(files), len(faults)) == (MAX_FILES, 2)


def test_all_that_is_wrong_with_a_file_is_told_at_once():
    text = "---\ndescription: d\nmod: all\ntools: Raed\nsteps: 0\nmax_turns: 3\ncolor: gren\n---\n"

    assert [(fault.key, fault.hint) for fault in problems("a", text)][:2] == [
        ("mod", "did you mean 'mode'?"),
        ("max_turns", "keep one of them"),
    ]
    assert {fault.key for fault in problems("a", text)} == {"mod", "max_turns", "tools", "steps"}
    assert problems("a", "---\ndescription: d\n---\n") == []


# --- tools offered ---


@pytest.mark.parametrize(
    ("name", "keys", "capabilities", "layers"),
    [
        ("build", {}, None, {"bash": "rule", "apply_patch": "model", "question": "rule"}),
        ("plan", {}, None, {"edit": "rule", "apply_patch": "model", "bash": "rule", "todowrite": "rule"}),
        ("explore", {}, None, {"edit": "scope", "todowrite": "scope", "task": "scope", "read": "rule"}),
        ("general", {}, None, {"todowrite": "rule", "todoread": "rule", "edit": "rule"}),
        ("mine", {"tools": "[read, 'todo*']"}, None, {"read": "rule", "todoread": "rule", "bash": "switch"}),
        ("mine", {"permission": "{edit: deny}"}, None, {"edit": "rule", "write": "rule", "read": "rule"}),
        ("mine", {"fixed": "{bash: deny}"}, None, {"bash": "fixed"}),
        ("mine", {"scope": '["read:**"]'}, None, {"read": "rule", "bash": "scope"}),
        ("mine", {}, ["read"], {"read": "rule", "bash": "capabilities", "edit": "capabilities"}),
        ("mine", {}, None, {"webfetch": "rule", "websearch": "settings"}),
        ("explore", {}, None, {"webfetch": "rule", "websearch": "settings"}),
    ],
)
@pytest.mark.parametrize("model", ["", "openai/gpt-5"])
def test_the_layer_that_decided_is_named_and_the_model_sees_just_what_is_offered(
    name, keys, capabilities, layers, model
):
    known = layered(*([file("mine", **keys)] if name == "mine" else []))
    agent = known.named(name)
    guard = Guard(agent.auth_scope or ("*:**",), (*DEFAULTS, *agent.rules), agent.fixed)

    offers = explain(agent, guard, capabilities, starts_others=True, searches=False, model=model)
    told = {offer.tool: offer for offer in offers}
    shown = {
        tool.name for tool in offered(agent, guard, capabilities, {"explore": "finds"}, model=model, web=WebAccess())
    }

    assert {tool for tool, offer in told.items() if offer.offered} == shown
    if not model:
        assert {tool: told[tool].layer for tool in layers} == {tool: layer for tool, layer in layers.items() if layer}


# --- generated files ---


def test_a_models_answer_becomes_a_file():
    answer = "```markdown\n---\nname: reviewer\ndescription: Reviews.\n---\nYou review.\n```\n"

    assert accepted(answer, "") == ("reviewer", "---\nname: reviewer\ndescription: Reviews.\n---\nYou review.\n")
    assert accepted(answer, "team/mine") == ("team/mine", "---\ndescription: Reviews.\n---\nYou review.\n")


@pytest.mark.parametrize(
    "answer",
    [
        "I cannot do that.",
        "---\nname: ../../etc/x\ndescription: d\n---\n",
        "---\nname: .hidden\ndescription: d\n---\n",
        "---\nname: verify\ndescription: d\n---\n",
        "---\ndescription: nameless\n---\n",
        "---\nname: a\ndescription: d\nmood: bad\n---\n",
    ],
)
def test_an_answer_that_is_no_agent_is_refused(answer):
    with pytest.raises(BadAgent):
        accepted(answer, "")


# --- what the documents and the built-in files say ---

PAGE = Path(__file__).parents[3] / "docs" / "agents" / "agents.md"


def test_the_example_of_the_documentation_is_an_agent():
    example = PAGE.read_text().split("```markdown\n")[1].split("```")[0]
    agent = layered(AgentFile("docs", "reviewer", example.encode()), trusted=False).named("reviewer")

    assert (agent.mode, agent.pool) == ("primary", "explore")
    for command, action in (("git log", Action.ALLOW), ("make", Action.DENY)):
        assert evaluate(agent.rules, "bash", [command]).action is action


def test_plan_works_in_five_phases():
    phases = ("1. Understand", "2. Design", "3. Review", "4. Write the plan", "5. Leave")

    assert sorted(phases, key=builtin()["plan"].prompt.index) == list(phases)


@pytest.mark.parametrize(
    ("name", "permission", "action"),
    [
        ("build", "question", Action.ALLOW),
        ("build", "plan_enter", Action.ALLOW),
        ("build", "plan_exit", Action.DENY),
        ("plan", "question", Action.ALLOW),
        ("plan", "plan_exit", Action.ALLOW),
        ("plan", "bash", Action.ALLOW),
        ("general", "todowrite", Action.DENY),
        ("general", "question", Action.DENY),
        ("explore", "webfetch", Action.ALLOW),
        ("explore", "edit", Action.DENY),
        ("explore", "task", Action.DENY),
    ],
)
def test_builtin_agents_have_the_rules_that_users_know(name, permission, action):
    assert evaluate((*DEFAULTS, *builtin()[name].rules), permission, ["x"]).action is action


@pytest.mark.parametrize(("name", "has"), [("build", True), ("plan", True), ("explore", False)])
def test_lists_of_todos_are_for_those_who_may_keep_one(name, has):
    scope = builtin()[name].auth_scope or ()

    assert (allows(scope, "todowrite", "*"), allows(scope, "todoread", "*")) == (has, has)
