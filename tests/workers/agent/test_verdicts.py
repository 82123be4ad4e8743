"""What answers mean for a call that waits for them: a table."""

from __future__ import annotations

import json

import pytest

from envelope.asks import Question, Reply
from envelope.events import AskOpened
from workers.agent.verdicts import Granted, Refused, Told, Waits, judge
from workers.permissions.guard import Allowed, Ask, Denied, Guard
from workers.permissions.rules import DEFAULTS, Action, Rule, parse_rules
from workers.tools.base import Target
from workers.tools.people import Asked, Said

OUTSIDE = AskOpened(ask_id="ask_1", permission="external_directory", patterns=("/opt/*",), detail="touch /opt/x")
COMMAND = AskOpened(ask_id="ask_2", permission="bash", patterns=("touch /opt/x",), detail="touch /opt/x")
CALL = Asked((OUTSIDE, COMMAND), until_ms=100, title="touch")
TOUCH = (Rule("bash", "touch *", Action.ALLOW),)
YES, NO = Reply(choice="once"), Reply(choice="reject")
WHY = Reply(choice="reject", message="stay inside")


def after(*replies: Reply | None, approved=(), now_ms=0, call=CALL):
    asks = zip(call.asks, replies, strict=False)
    said = {ask.ask_id: Said(reply, "me") for ask, reply in asks if reply is not None}
    return judge(call, said, approved, now_ms=now_ms)


@pytest.mark.parametrize(
    ("verdict", "expected"),
    [
        (after(), Waits((OUTSIDE, COMMAND))),
        (after(YES), Waits((COMMAND,))),
        (after(None, YES), Waits((OUTSIDE,))),
        (after(YES, YES), Granted("touch /opt/x")),
        (after(YES, approved=TOUCH), Granted("touch /opt/x")),
        (after(None, NO), Refused(COMMAND)),
        (after(YES, NO, approved=TOUCH), Refused(COMMAND)),
        (after(YES, YES, now_ms=1000), Granted("touch /opt/x")),
    ],
)
def test_a_call_runs_when_every_ask_of_it_is_settled(verdict, expected):
    assert verdict == expected


def test_a_no_with_a_reason_and_a_silence_are_told_to_the_model():
    no, silence = after(WHY), after(YES, now_ms=100)

    assert isinstance(no, Told) and no.result.is_error and "stay inside" in no.result.content
    assert isinstance(silence, Told) and silence.result.is_error and "nobody has answered" in silence.result.content


def plan(reply: Reply):
    ask = AskOpened(ask_id="ask_3", permission="plan_exit", questions=(Question(question="May it?"),))
    return after(reply, call=Asked((ask,), until_ms=100))


@pytest.mark.parametrize("reply", [YES, Reply(choice="once", answers=(("yes",),))])
def test_a_plan_is_approved_by_a_yes(reply):
    assert plan(reply).result.is_error is False


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (NO, "was not approved."),
        (WHY, "stay inside"),
        (Reply(choice="once", answers=(("smaller, please",),)), "smaller"),
    ],
)
def test_everything_else_goes_back_to_the_planner_and_ends_nothing(reply, words):
    verdict = plan(reply)

    assert isinstance(verdict, Told) and verdict.result.is_error and words in verdict.result.content


def test_questions_without_an_answer_are_shown_as_such():
    ask = AskOpened(ask_id="q", permission="question", questions=(Question(question="a"), Question(question="b")))

    told = after(Reply(choice="once", answers=((), ("x", "y"))), call=Asked((ask,), until_ms=1))

    answers = [{"question": "a", "answer": ["(no answer)"]}, {"question": "b", "answer": ["x", "y"]}]
    assert json.loads(told.result.content) == told.result.metadata["answers"] == answers


GUARD = Guard(("bash:**", "read:**"), (*DEFAULTS, *parse_rules({"bash": {"*": "ask", "git push *": "deny"}})))


@pytest.mark.parametrize(
    ("targets", "approved", "expected"),
    [
        ([Target("read", "a")], (), Allowed()),
        ([Target("bash", "ls"), Target("bash", "wc")], (), Ask({"bash": ("ls", "wc")})),
        ([Target("bash", "ls")], (Rule("bash", "ls *", Action.ALLOW),), Allowed()),
        (
            [Target("external_directory", "/opt/*"), Target("bash", "ls")],
            (),
            Ask({"external_directory": ("/opt/*",), "bash": ("ls",)}),
        ),
    ],
)
def test_several_targets_of_a_call_are_one_ask_for_each_permission(targets, approved, expected):
    assert GUARD.judge(targets, approved) == expected


@pytest.mark.parametrize("target", [Target("bash", "git push -f"), Target("edit", "a.py")])
def test_what_was_always_allowed_lifts_neither_a_deny_nor_the_scope(target):
    everything = (Rule("*", "*", Action.ALLOW),)

    assert isinstance(GUARD.judge([Target("bash", "ls"), target], everything), Denied)
