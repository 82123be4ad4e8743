"""The pure parts of a prompt: the layer for a model's family, and what stands at its end."""

from __future__ import annotations

import pytest

from envelope.budget import Budget
from workers.agent.family import FAMILIES, family_of, first_layer
from workers.agent.history import open_session, reopen_session, say
from workers.agent.prompt import Environment, system_prompt
from workers.agent.reminders import BUILDING, PLANNING, with_reminder
from workers.agents.registry import builtin, parse_agent
from workers.llm.base import ChatMessage


@pytest.mark.parametrize(
    ("model", "family"),
    [
        ("anthropic/claude-sonnet-4-5", "anthropic"),
        ("bedrock/us.anthropic.claude-opus-4", "anthropic"),
        ("openai/gpt-5", "gpt"),
        ("gpt-4.1", "gpt"),
        ("openai/o3-mini", "gpt"),
        ("openai/gpt-5-codex", "codex"),
        ("gemini/gemini-2.5-pro", "gemini"),
        ("ollama/gpt-oss-120b", "default"),
        ("mistral/large", "default"),
        ("qwen/moo3", "default"),
        ("", "default"),
    ],
)
def test_a_models_name_tells_its_family(model, family):
    assert family_of(model) == family


def test_every_family_has_words_of_its_own():
    build = builtin()["build"]
    layers = [first_layer(build, model) for model in ("claude", "codex", "gpt-5", "gemini", "another")]

    assert len({*layers}) == len({family for _, family in FAMILIES}) == 5
    assert all(layer.startswith(build.prompt) for layer in layers)


def test_an_agents_own_words_stand_alone_and_who_has_none_works_by_builds():
    own = parse_agent("own", "---\ndescription: d\n---\nYou sing.")
    mute = parse_agent("mute", "---\ndescription: d\n---\n")

    assert first_layer(own, "openai/gpt-5") == "You sing."
    assert first_layer(mute, "openai/gpt-5") == first_layer(builtin()["build"], "openai/gpt-5")


def test_the_line_for_programs_stands_last_and_only_when_asked_for():
    here = Environment("2026-11-21", writable=False)
    plain = system_prompt(builtin()["build"], here)

    asked = system_prompt(builtin()["build"], here, is_structured=True)

    assert asked.startswith(plain) and "StructuredOutput" in asked.removeprefix(plain)
    assert "read-only" in plain and "Git: no repository" in plain


def session_of(agent: str):
    return open_session(builtin()[agent], model="m", system="s", prompt="p", budget=Budget())


def last_of(session) -> str:
    return with_reminder(session, session.messages)[-1].content


def test_a_reminder_hangs_on_the_persons_last_prompt_and_changes_no_session():
    session = say(session_of("plan"), "Go on.")
    shown = with_reminder(session, session.messages)

    assert [PLANNING in message.content for message in shown] == [False, True, False]
    assert session.messages[1].content == "p"
    assert with_reminder(session, shown[:1]) == shown[:1], "nothing to hang it on"


def test_after_a_compaction_it_hangs_on_what_stands_for_the_prompt():
    shown = [ChatMessage(role="user", content="asked", synthetic=True), ChatMessage(role="assistant", content="notes")]

    assert PLANNING in with_reminder(session_of("plan"), shown)[0].content


def test_build_hears_once_that_the_planning_is_over():
    def again(session, agent: str):
        return reopen_session(session, builtin()[agent], model="m", prompt="go", budget=Budget())

    built = again(session_of("plan"), "build")

    assert BUILDING in last_of(built) and last_of(again(built, "build")) == "go"
    assert PLANNING in last_of(again(built, "plan")) and last_of(session_of("build")) == "p"
