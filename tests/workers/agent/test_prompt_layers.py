"""The pure parts of a prompt: the layer for a model's family, and what stands at its end."""

from __future__ import annotations

import pytest

from envelope.budget import Budget
from workers.agent.compaction import Compaction
from workers.agent.family import FAMILIES, family_of, first_layer
from workers.agent.history import open_session, reopen_session, say, with_prompts
from workers.agent.prompt import Environment, system_prompt
from workers.agent.reminders import BUILDING, PLANNING, reminded
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
    return reminded(session).messages[-1].content


def test_a_reminder_stands_behind_the_persons_last_prompt_and_stays_there():
    session = reminded(say(session_of("plan"), "Go on."))
    later = reminded(with_prompts(say(session, "Said."), ["And now?"]))

    assert [PLANNING in message.content for message in session.messages] == [False, False, False, True]
    assert session.messages[1].content == "p" and session.messages[-1].synthetic
    assert reminded(say(session, "Go on.")) == say(session, "Go on."), "told once behind a prompt"
    assert later.messages[: len(session.messages)] == session.messages
    assert PLANNING in later.messages[-1].content


def test_what_a_file_says_counts_for_no_reminder():
    read = ChatMessage(role="tool", name="read", tool_call_id="1", content=PLANNING)
    session = session_of("plan")
    session = session.model_copy(update={"messages": (*session.messages, read)})

    assert PLANNING in reminded(session).messages[-1].content and reminded(session) != session


def test_after_a_compaction_it_is_told_again():
    session = reminded(session_of("plan"))
    compacted = session.model_copy(update={"compaction": Compaction(summary="notes", kept_from=len(session.messages))})

    assert PLANNING in reminded(compacted).messages[-1].content
    assert len(reminded(compacted).messages) == len(session.messages) + 1


def test_build_hears_once_that_the_planning_is_over():
    def again(session, agent: str):
        return reopen_session(session, builtin()[agent], model="m", prompt="go", budget=Budget())

    built = again(session_of("plan"), "build")

    assert BUILDING in last_of(built) and last_of(again(built, "build")) == "go"
    assert PLANNING in last_of(again(built, "plan")) and last_of(session_of("build")) == "p"
