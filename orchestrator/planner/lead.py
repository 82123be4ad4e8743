"""A goal that plans lead: carried out, planned again for what fails, and put together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from envelope.errors import CODES
from envelope.lifecycle import State
from envelope.messages import ErrorInfo, Output, TaskResult
from envelope.plan import OnFailure, Plan, PlanStep, StepStatus

from ..driver import Driver
from ..errors import BadInput
from ..submit import GoalParams, GoalStep
from .asking import ask_again
from .checks import Bounds, checked
from .conduct import Conduct
from .report import report_text
from .steps import Steps
from .survey import Standing, Survey

STAYS = (StepStatus.DONE, StepStatus.SKIPPED)


@dataclass(slots=True)
class Lead:
    """`survey`: how the latest plan stands. `replans_left`: how many more plans there may be."""

    driver: Driver
    params: GoalParams
    steps: Steps
    conduct: Conduct
    survey: Survey
    replans_left: int

    @classmethod
    async def of(cls, driver: Driver, params: GoalParams, plan: Plan) -> Lead:
        """The plan, carried out, and others after it for what fails."""
        steps = await Steps.of(driver, params)
        conduct = Conduct(driver, steps)
        survey = await conduct.carry_out(plan)
        lead = cls(driver, params, steps, conduct, survey, plan.max_replans if plan.allow_replan else 0)
        await lead._mend()
        return lead

    async def again(self, reason: str) -> bool:
        """Another plan, since what was done does not do; False, and nothing happened, where there may be none."""
        if not self.replans_left or self._failed:
            return False
        await self._plan_again(reason)
        await self._mend()
        return True

    async def result(self) -> TaskResult:
        """One of all; also of a plan that was stopped, with what was done until then."""
        survey = self.survey
        failed = survey.failed(OnFailure.STOP) or survey.failed(OnFailure.REPLAN)
        errors = (_error(failed),) if failed else ()
        claim = self.driver.delivery.claim
        results = [one.result for one in survey.standings.values() if one.result]
        alone = len(survey.standings) == 1 and results
        whole = Output(text=report_text(survey), structured={"plan": survey.shown().model_dump(mode="json")})
        return TaskResult(
            trace_id=claim.lease.trace_id,
            task_id=results[-1].task_id if results else claim.lease.task_id,
            attempt=claim.lease.attempt,
            status=CODES[errors[0].code].state if errors else State.COMPLETED,
            errors=errors,
            output=results[0].output if alone else whole,
            attachments=tuple(attached for result in results for attached in result.attachments),
            provenance=tuple(each for result in results for each in result.provenance),
            patch=await self.steps.patch(survey.done),
        )

    @property
    def _failed(self) -> bool:
        return bool(self.survey.failed(OnFailure.STOP) or self.survey.failed(OnFailure.REPLAN))

    async def _mend(self) -> None:
        while self.replans_left and not self.survey.failed(OnFailure.STOP):
            failed = self.survey.failed(OnFailure.REPLAN)
            if failed is None:
                return
            await self._plan_again(f"The step {failed.step.step_id!r} failed: {failed.outcome}")

    async def _plan_again(self, reason: str) -> None:
        """What is done stays as it is, and comes first; what the model says of it does not count."""
        self.replans_left -= 1
        before, bounds = self.survey.plan, bounds_of(self.driver, self.params)
        kept = {name for name, one in self.survey.standings.items() if one.status in STAYS}

        def joined(plan: Plan) -> Plan:
            stay = tuple(step for step in before.steps if step.step_id in kept)
            new = tuple(step for step in plan.steps if step.step_id not in kept)
            if not new:
                raise BadInput("it has no new step", hint="plan what is left to do")
            steps = (*stay, *_on_top(new, stay))
            whole = before.model_copy(update={"steps": steps, "version": before.version + 1})
            return checked(whole, bounds)

        workspace = await self.steps.workspace(self.survey.done)
        planner = planner_of(self.params)
        plan = await ask_again(self.driver, planner, self.params.roster, self.survey, reason, joined, workspace)
        self.survey = await self.conduct.carry_out(plan, kept)


def _on_top(new: Sequence[PlanStep], stay: Sequence[PlanStep]) -> Iterator[PlanStep]:
    """The new steps start from all that is done, whether the model says so or not."""
    theirs, done = {step.step_id for step in new}, tuple(step.step_id for step in stay)
    for step in new:
        is_first = theirs.isdisjoint(step.depends_on)
        yield (
            step.model_copy(update={"depends_on": tuple(dict.fromkeys((*step.depends_on, *done)))})
            if is_first
            else step
        )


def planner_of(params: GoalParams) -> GoalStep:
    if params.planner is None:
        raise BadInput("the goal names nobody who plans", hint="submit it with `muster run --plan`")
    return params.planner


def bounds_of(driver: Driver, params: GoalParams) -> Bounds:
    request = driver.request
    return Bounds(
        agents={step.agent: step.auth_scope for step in params.roster},
        scope=request.auth_scope,
        max_cost_microusd=request.budget.max_cost_microusd,
        deadline_ms=request.deadline_ms,  # whole: a driver that begins anew must find its plan as right as before
    )


def _error(failed: Standing) -> ErrorInfo:
    assert failed.failure
    error = failed.failure.error
    hint = error.hint or (f"see it: muster task show {failed.result.task_id}" if failed.result else "")
    return error.model_copy(update={"message": f"the step {failed.step.step_id!r}: {error.message}", "hint": hint})
