"""Where a plan stands, made of nothing but the plan and the results that there are. Pure.

A run of a step is known by what it is made of: the step, how many tries there were before, and the runs whose work it
builds on. So whoever looks again with the same results sees the same: a driver that was killed goes on, and a step that
is done anew has those after it done anew, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from envelope.errors import ErrorCode
from envelope.ids import content_key
from envelope.lifecycle import State
from envelope.messages import ErrorInfo, TaskResult
from envelope.plan import OnFailure, Plan, PlanStep, StepStatus

from .graph import in_order, needs

MAX_TRIES = 3  # of a step that is to be retried: what fails three times will fail again
OUTCOME_CHARS = 500
# Before the reason of whoever stops a step in order to have the rest planned again.
REPLAN_WORD = "plan again: "
# What nobody mends by trying or planning again: a person said no, the money is spent.
FINAL = frozenset({ErrorCode.REFUSED, ErrorCode.BUDGET, ErrorCode.CANCELLED})


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a try came to nothing. `others`: steps whose work it collides with, which come first at the next try."""

    error: ErrorInfo
    others: tuple[str, ...] = ()

    @property
    def is_wish(self) -> bool:
        """Did somebody want a new plan?"""
        return self.error.code is ErrorCode.CANCELLED and self.error.message.startswith(REPLAN_WORD)


@dataclass(frozen=True, slots=True)
class Run:
    """One try at a step. `before`: all runs whose work it starts from, in their order."""

    step: PlanStep
    key: str
    before: tuple[Run, ...] = ()


@dataclass(frozen=True, slots=True)
class Standing:
    """Of one step. `run` is the latest, whose `result` is None while it is wanted."""

    step: PlanStep
    status: StepStatus = StepStatus.PENDING
    run: Run | None = None
    result: TaskResult | None = None
    failure: Failure | None = None
    then: OnFailure | None = None  # of a failed one

    @property
    def outcome(self) -> str:
        if self.failure is not None:
            text = self.failure.error.message
        else:
            text = self.result.output.text if self.result else ""
        return " ".join(text.split())[:OUTCOME_CHARS]


@dataclass(frozen=True, slots=True)
class Survey:
    """By step, in their order."""

    plan: Plan
    standings: Mapping[str, Standing]

    @property
    def wanted(self) -> list[Run]:
        """Runs that may be under way now, and have no result yet."""
        return [one.run for one in self.standings.values() if one.status is StepStatus.RUNNING and one.run]

    @property
    def done(self) -> list[Run]:
        return [one.run for one in self.standings.values() if one.status is StepStatus.DONE and one.run]

    def failed(self, then: OnFailure) -> Standing | None:
        """The first one of whose failure this follows."""
        return next((one for one in self.standings.values() if one.then is then), None)

    def shown(self) -> Plan:
        """The plan, with how far each step is."""
        steps = (
            step.model_copy(update={"status": one.status, "outcome": one.outcome})
            for step in self.plan.steps
            if (one := self.standings[step.step_id])
        )
        return self.plan.model_copy(update={"steps": tuple(steps)})


@dataclass(frozen=True, slots=True)
class Known:
    """What a survey is made from, beside the plan. `versions`: in which version of the plan a step came in; an equal
    step of a later plan is another one. `overruled`: by run, of work that was done and fits nowhere."""

    root: str
    versions: Mapping[str, int]
    results: Mapping[str, TaskResult]
    overruled: Mapping[str, Failure]


def survey_of(plan: Plan, known: Known) -> Survey:
    """`plan` is a graph without circles."""
    before = needs(plan)
    found: dict[str, Standing] = {}
    for step in in_order(plan):
        found[step.step_id] = _standing(step, before, found, known)
    return Survey(plan, found)


def _standing(
    step: PlanStep, needed: Mapping[str, tuple[str, ...]], found: Mapping[str, Standing], known: Known
) -> Standing:
    if not all(found[other].status in (StepStatus.DONE, StepStatus.SKIPPED) for other in step.depends_on):
        return Standing(step)
    tries = MAX_TRIES if step.on_failure is OnFailure.RETRY else 1
    standing, sooner = Standing(step), set(needed[step.step_id])
    for number in range(1, tries + 1):
        run = _run(step, number, sooner, found, known)
        result = known.results.get(run.key)
        if result is None:
            return Standing(step, StepStatus.RUNNING, run)
        failure = known.overruled.get(run.key) or failure_of(result)
        if failure is None:
            return Standing(step, StepStatus.DONE, run, result)
        standing = _failed(step, run, result, failure)
        if failure.is_wish or failure.error.code in FINAL:
            break
        sooner |= set(failure.others).union(*(needed[other] for other in failure.others))
    return standing


def _failed(step: PlanStep, run: Run, result: TaskResult, failure: Failure) -> Standing:
    then = OnFailure.STOP if step.on_failure is OnFailure.RETRY else step.on_failure
    if failure.is_wish:
        then = OnFailure.REPLAN
    elif failure.error.code in FINAL:
        then = OnFailure.STOP
    status = StepStatus.SKIPPED if then is OnFailure.SKIP else StepStatus.FAILED
    return Standing(step, status, run, result, failure, then)


def _run(step: PlanStep, number: int, sooner: set[str], found: Mapping[str, Standing], known: Known) -> Run:
    done = (one for name, one in found.items() if name in sooner and one.status is StepStatus.DONE)
    before = tuple(one.run for one in done if one.run)
    content = step.model_dump_json(exclude={"status", "outcome"})
    version = str(known.versions.get(step.step_id, 0))
    key = content_key("step", known.root, version, content, str(number), *(run.key for run in before))
    return Run(step, key, before)


def failure_of(result: TaskResult) -> Failure | None:
    """None when it completed. A task that was stopped need not say why."""
    if result.status is State.COMPLETED:
        return None
    code = ErrorCode.CANCELLED if result.status is State.CANCELLED else ErrorCode.DEADLINE
    silent = ErrorInfo.of(code, f"its task ended as {result.status}")
    return Failure(result.errors[0] if result.errors else silent)
