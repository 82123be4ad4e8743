"""What people read: units, errors, lines and the summary. Pure; no process is started."""

from __future__ import annotations

import doctest

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st

from envelope.errors import CODES, ErrorCode, ExitCode, MusterError, ScopeExceeded
from envelope.events import (
    BudgetReached,
    ChildEnded,
    ChildSpawned,
    GateVerdict,
    MergeStep,
    PlanChanged,
    StateChanged,
    Todo,
    TodoUpdated,
    ToolCallChanged,
)
from envelope.ids import blob_ref, new_task_id, new_trace_id
from envelope.lifecycle import State
from envelope.messages import ErrorInfo, FileStat, Output, PatchRef, TaskProgress, TaskResult
from envelope.plan import Plan, PlanStep
from orchestrator import units, words
from orchestrator.cli.console import answer, plain
from orchestrator.cli.failure import failure_of
from orchestrator.cli.lines import details, milestones
from orchestrator.cli.outcome import exit_code_of
from orchestrator.cli.summary import summary_of_run
from orchestrator.errors import BadInput
from orchestrator.session import said
from orchestrator.session.fold import Session, apply_all
from orchestrator.units import dollars, duration, parse_duration_s, tokens
from repo.errors import BranchRefused
from transport.base import Entry
from transport.errors import Misconfigured, NotFound, Unreachable

TRACE, ROOT = new_trace_id(), new_task_id()


@pytest.mark.parametrize(
    ("error", "exit_code"),
    [
        (BadInput("x"), ExitCode.USAGE),
        (BranchRefused("x"), ExitCode.USAGE),
        (NotFound("x"), ExitCode.USAGE),
        (Misconfigured("x"), ExitCode.USAGE),
        (ScopeExceeded("x"), ExitCode.REFUSED),
        (Unreachable("x"), ExitCode.INFRASTRUCTURE),
        (MusterError("x"), ExitCode.INFRASTRUCTURE),
        (typer.BadParameter("x"), ExitCode.USAGE),
        (ZeroDivisionError("x"), ExitCode.INFRASTRUCTURE),
    ],
)
def test_every_error_has_a_sentence_a_hint_and_an_exit_code(error, exit_code):
    failure = failure_of(error)
    assert failure.exit_code == exit_code
    assert failure.message
    assert failure.hint


def test_an_error_shows_no_secret_and_only_one_line():
    failure = failure_of(BadInput("Bearer abcdefghijklmnop1234\nwas refused.", hint="sk-aaaaaaaaaaaaaaaaaaaaaaaa"))
    assert failure.message == "[redacted] was refused"
    assert failure.hint == "[redacted]"


@pytest.mark.parametrize("text", ["", "5x", "m5", "1h-3m", "-5", "1.5h"])
def test_a_wrong_length_of_time_is_refused(text):
    with pytest.raises(ValueError, match="not a length of time"):
        parse_duration_s(text)


@given(st.integers(0, 10**12))
def test_figures_always_carry_their_unit(number: int):
    assert dollars(number).startswith("$")
    assert tokens(number).endswith(" tok")
    assert duration(number)[-1] in "sm"


@given(st.text())
def test_plain_text_has_nothing_that_a_terminal_obeys(text: str):
    assert plain(text).isprintable()


@pytest.mark.parametrize("code", ErrorCode)
def test_the_exit_code_of_a_result_is_that_of_its_first_error(code: ErrorCode):
    errors = (ErrorInfo.of(code, "x"), ErrorInfo.of(ErrorCode.INTERNAL, "y"))
    result = TaskResult(trace_id=TRACE, task_id=ROOT, attempt=1, status=State.ERROR, errors=errors)
    assert exit_code_of(result) is CODES[code].exit_code


def _entry(*events) -> Entry:
    message = TaskProgress(trace_id=TRACE, task_id=ROOT, attempt=1, seq=0, at_ms=0, status=State.RUNNING, events=events)
    return Entry("1-0", message)


def _told(tell, *events) -> list[str]:
    entry = _entry(*events)
    return list(tell(apply_all(Session.of(ROOT, TRACE, agent="run", title="it"), [entry]), entry))


def test_milestones_leave_tools_out_and_details_have_their_output():
    call = ToolCallChanged(call_id="1", tool="bash", state="completed", title="ls", output="a\nb\x1b[2J")
    assert _told(milestones, call) == []
    assert _told(details, call) == ["run: bash ls", "run:   a", "run:   b?[2J"]


def test_a_plan_is_told_with_its_steps_and_what_waits_sees_how_far_it_is():
    done = PlanStep(step_id="a", title="Look", goal="", agent="explore", status="done", outcome="in\x1b[2J x.py")
    steps = (done, PlanStep(step_id="b", title="Mend", goal="", agent="build", depends_on=("a",)))
    changed = PlanChanged(plan=Plan(goal="No bug", version=3, steps=steps))
    assert _told(milestones, changed) == ["run: plan 1/2"]
    assert _told(details, changed) == [
        "run: plan, version 3: No bug",
        "run:   ✔ a Look (explore): in?[2J x.py",
        "run:   · b Mend (build, after a)",
    ]
    todos = TodoUpdated(todos=(Todo(content="x", status="in_progress"), Todo(content="y")))
    assert (_told(milestones, todos), _told(details, todos)) == ([], ["run: todos, 2", "run:   ● x", "run:   · y"])


def test_gates_collisions_and_budgets_are_told_as_they_happen():
    ended = ChildEnded(child_task_id=new_task_id(), state=State.ERROR, error="no\nmore")
    told = _told(
        milestones,
        GateVerdict(phase="after", passed=False, tests=3, failed=1, detail="`pytest`: exit code 1\nlong tail"),
        MergeStep(key="b.py", outcome="collision", paths=("x",), with_keys=("a.py",)),
        BudgetReached(limit="turns", spent=5, allowed=5),
        ended,
    )
    assert told == [
        "run: gate after: failed, 3 tests (1 failed): `pytest`: exit code 1",
        "run: merge: b.py collides with a.py in x",
        "run: budget reached: 5 of 5 (turns)",
        "run: ✘ task error: no",
    ]


def test_a_child_is_told_by_its_agent_and_a_title_that_is_not_the_goals():
    view = Session.of(ROOT, TRACE, agent="run", title="tidy up everything that is here")
    build, explore = (
        ChildSpawned(child_task_id=new_task_id(), agent=agent, title=title)
        for agent, title in (("build", "tidy up everything"), ("explore", "find " + "callers " * 20))
    )
    entry = _entry(build, explore)

    told = list(milestones(apply_all(view, [entry]), entry))

    assert told[0] == "run: started build"
    assert told[1] == f"run: started explore {('find ' + 'callers ' * 20)[:59]}…"


def _result(**fields) -> TaskResult:
    return TaskResult(**{"trace_id": TRACE, "task_id": ROOT, "attempt": 1, "status": State.COMPLETED, **fields})


def test_the_summary_names_what_changed_and_the_commands_to_see_it():
    files = tuple(FileStat(path=f"{number}.py", status="M", added=1, removed=2) for number in range(20))
    patch = PatchRef(base="b", diff=blob_ref(b""), files=files, added=20, removed=40, tree="t")
    summary = summary_of_run(
        Session.of(ROOT, TRACE), _result(patch=patch, output=Output(structured={"verified": True})), cap_microusd=1
    )
    assert (summary.headline, summary.good, summary.hint) == ("✔ done and verified", True, "")
    assert summary.lines[0] == ("changed", "20 files, +20 −40")
    assert ("", "… 8 more") in summary.lines
    assert [command.split()[2:4] for command in summary.commands] == [["diff", ROOT], ["apply", ROOT], ["logs", ROOT]]


def test_done_is_not_verified():
    assert summary_of_run(Session.of(ROOT, TRACE), _result(), cap_microusd=None).headline == "✔ done, not verified"


def test_a_headline_never_says_more_than_the_gate():
    structured = {"verified": True, "reason": "the same 4 tests fail on the base"}

    summary = summary_of_run(Session.of(ROOT, TRACE), _result(output=Output(structured=structured)), cap_microusd=None)

    assert summary.headline == "✔ verified: the same 4 tests fail on the base"
    assert {"not done", "not proved"}.isdisjoint(dict(summary.lines))


def test_an_agent_that_calls_its_change_verified_is_not_believed():
    patch = PatchRef(base="b", diff=blob_ref(b""), files=(FileStat(path="a.py", status="M"),), tree="t")
    told = _result(patch=patch, output=Output(structured={"verified": True}))
    summary = summary_of_run(Session.of(ROOT, TRACE), told, cap_microusd=None, is_goal=False)
    assert summary.headline == "✔ done, not verified"
    assert ("not proved", "no gate was run on this change alone") in summary.lines


def test_a_failure_is_a_sentence_and_a_hint():
    errors = (ErrorInfo.of(ErrorCode.MODEL_AUTH, "the key is refused\nwith a long reason", "set another key"),)
    summary = summary_of_run(Session.of(ROOT, TRACE), _result(status=State.ERROR, errors=errors), cap_microusd=None)
    assert (summary.headline, summary.hint, summary.good) == ("error: the key is refused", "set another key", False)
    silent = summary_of_run(Session.of(ROOT, TRACE), _result(status=State.EXPIRED), cap_microusd=None)
    assert (silent.headline, silent.hint) == ("error: expired", f"see how it went: muster task logs {ROOT}")
    stopped = summary_of_run(Session.of(ROOT, TRACE), _result(status=State.CANCELLED), cap_microusd=None)
    assert stopped.hint.endswith(f'goes on with: muster task prompt {ROOT} "…"')


def test_the_examples_of_figures_and_words_hold():
    assert [doctest.testmod(module).failed for module in (said, units, words)] == [0, 0, 0]


def test_what_a_task_waits_for_and_that_it_was_lost_is_told_as_it_happens():
    told = _told(
        milestones,
        StateChanged(state=State.WAITING, reason="waits for 2 children, 1 asks"),
        StateChanged(state=State.PENDING, reason="its worker was lost"),
        StateChanged(state=State.RUNNING, worker="w2"),
    )
    assert told == ["run: waits for 2 children and 1 answer", "run: pending again: its worker was lost"]


def test_an_answer_keeps_its_lines_and_gives_the_terminal_no_orders(capsys):
    answer("\x1b[2Jcleared\n\tindented\x9b1A\n\nend\x07")

    assert capsys.readouterr().out == "?[2Jcleared\n    indented?1A\n\nend?\n"


def test_a_folder_that_cannot_be_used_is_named():
    failure = failure_of(PermissionError(13, "Permission denied", "/var/muster"))

    assert failure.message == "/var/muster cannot be used: Permission denied"
    assert (failure.exit_code, bool(failure.hint)) == (ExitCode.USAGE, True)


def test_an_error_that_names_a_hostile_file_gives_the_terminal_no_orders():
    assert failure_of(BadInput("there is \x1b[2Ja\x07")).message == "there is ?[2Ja?"
