"""The built-in prompts say what an expert would say, and cost no more than docs/agents/prompt.md allows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from workers.agent.family import FAMILIES, first_layer
from workers.agent.prompt import Environment, system_prompt
from workers.agent.surroundings import Git, Tree
from workers.agents.registry import builtin
from workers.project.instructions import Instruction
from workers.project.skills import Skill
from workers.tools.registry import all_tools

PAGE = (Path(__file__).parents[3] / "docs" / "agents" / "prompt.md").read_text()
# name → tokens, bound
COSTS = {
    name: (int(tokens.replace(",", "")), int(bound.replace(",", "")))
    for name, tokens, bound in re.findall(
        r"^\| ([^|]+) \| [^|]*[a-z][^|]* \| ([\d,]+) \| ([\d,]+) \|$", PAGE, re.MULTILINE
    )
}
MODELS = {"anthropic": "claude", "codex": "gpt-5-codex", "gpt": "gpt-5", "gemini": "gemini", "default": "qwen3"}
WORKERS = ("build", "explore", "general", "plan")
CHANGERS = ("build", "general")

# purpose → who is told, and the words by which it is known
GUIDANCE = {
    "explore before editing": (("build",), r"Find the code with `grep` and `glob`"),
    "read before editing": (CHANGERS, r"[Rr]ead (what you will change|before you edit)"),
    "the project's own ways": (CHANGERS, r"(how the project does things|as the project does)"),
    "no invented libraries": (("build",), r"that you have not seen there does not exist"),
    "parallel calls": (WORKERS, r"in ONE\s+turn"),
    "absolute paths": (WORKERS, r"[Aa]bsolute paths under /workspace"),
    "no over-editing": (CHANGERS, r"the smallest change that does the whole job"),
    "what others made": (CHANGERS, r"What was there before you (is somebody's work|stays)"),
    "security": (("build",), r"Open no hole .* no secret"),
    "commits": (WORKERS, r"[Nn]ever commit(,| or) push"),
    "untrusted content": (WORKERS, r"is material to work on, not an instruction to you"),
    "attempts are told": (WORKERS, r"[Rr]eport one\s+that tries to lead you"),
    "no denied call again": (CHANGERS, r"(denied stays denied|call that was denied)"),
    "reproduce first": (("build",), r"Reproduce a fault before you mend it"),
    "tests are run": (CHANGERS, r"Run the tests that cover"),
    "tests are not weakened": (CHANGERS, r"Never make a check pass by weakening it"),
    "no command without an end": (("build",), r"no editor, pager, prompt or watch mode"),
    "to the end": (("build",), r"Go on until the task is done or cannot be done"),
    "questions change nothing": (("build",), r"A question alone is answered, and nothing is changed"),
    "open choices are said": (CHANGERS, r"(take what the code suggests and say so|say what you took for granted)"),
    "when to start a subagent": (("build", "plan"), r"what a call or two can find"),
    "the answer stands alone": (WORKERS[:3], r"(has seen nothing of your work|sees your answer and\s+nothing else)"),
    "the outcome first": (WORKERS[:3], r"(The outcome|the outcome|The answer) first"),
    "evidence": (WORKERS, r"`path:line`"),
    "what was not done": (WORKERS[:3], r"(did not do|did not find)"),
}  # fmt: skip


def tokens_of(text: str) -> int:
    return len(text) // 4


@pytest.mark.parametrize("purpose", GUIDANCE)
def test_each_agent_is_told_what_it_needs(purpose):
    agents, words = GUIDANCE[purpose]

    assert [name for name in agents if not re.search(words, " ".join(builtin()[name].prompt.split()))] == []


@pytest.mark.parametrize("family", MODELS)
def test_habits_add_to_the_guidance_and_repeat_none_of_it(family):
    build = builtin()["build"].prompt
    habits = first_layer(builtin()["build"], MODELS[family]).removeprefix(build)

    assert habits.strip().startswith("Habits that serve you\n- ")
    lines = [line.strip("- ") for line in habits.strip().splitlines()[1:]]
    assert lines and not [line for line in lines if line in build]
    assert not [purpose for purpose, (_, words) in GUIDANCE.items() if re.search(words, habits)]


def costs() -> dict[str, str]:
    """What the page has a row for: each prompt, each family's habits, the tools."""
    build = builtin()["build"]
    texts = {f"`{name}`": agent.prompt for name, agent in builtin().items() if agent.prompt}
    habits = {f"habits: {name}": first_layer(build, MODELS[name]).removeprefix(build.prompt) for name in MODELS}
    tools = all_tools({name: agent.description for name, agent in builtin().items() if agent.mode == "subagent"})
    return {**texts, **habits, "tools": "".join(f"{tool.description}{tool.parameters}" for tool in tools.values())}


def test_the_page_has_a_row_for_each_part():
    assert {family for _, family in FAMILIES} == {*MODELS}
    assert {*costs()} == {*COSTS}


@pytest.mark.parametrize("part", costs())
def test_no_part_costs_more_than_the_page_says(part):
    tokens = tokens_of(costs()[part])
    stated, bound = COSTS[part]

    assert tokens <= bound
    assert abs(tokens - stated) <= max(10, stated * 0.15), f"docs/agents/prompt.md says {stated}, it is {tokens}"


def test_sessions_of_other_days_and_commits_begin_with_the_same_bytes():
    """Up to where they are: what an agent, a project and its skills say is worth caching for all of them."""
    project = [Instruction("/workspace/AGENTS.md", "Use tabs.")]
    skills = [Skill("sing", "How to sing.", "La.", "/workspace/.muster/skills/sing")]

    def prompt(date: str, commit: str) -> str:
        here = Environment(date, True, "claude", git=Git(commit), tree=Tree(("a.py",)))
        return system_prompt(builtin()["build"], here, instructions=project, skills=skills)

    one, other = prompt("2026-11-21", "a" * 40), prompt("2026-11-27", "b" * 40)
    shared, mark, rest = one.partition("# Where you are")

    assert mark and other.startswith(shared + mark)
    assert "Use tabs." in shared and "How to sing." in shared and "Date" not in shared
    assert "commit aaaaaaaaaaaa," in rest
