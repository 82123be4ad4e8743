"""A plan is carried out: what may start is started, until nothing more can be."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from contextlib import aclosing
from dataclasses import dataclass, field

from envelope.events import PlanChanged
from envelope.messages import TaskResult
from envelope.plan import OnFailure, Plan

from ..driver import Driver, Work
from .steps import Steps
from .survey import Failure, Known, Run, Survey, survey_of

Ends = asyncio.Queue[tuple[Run, TaskResult] | Exception]


@dataclass(slots=True)
class Conduct:
    """Of one goal, over all versions of its plan. What was done stays known when the plan becomes another one."""

    driver: Driver
    steps: Steps
    versions: dict[str, int] = field(default_factory=dict[str, int])
    results: dict[str, TaskResult] = field(default_factory=dict[str, TaskResult])
    overruled: dict[str, Failure] = field(default_factory=dict[str, Failure])
    _shown: Plan | None = None

    async def carry_out(self, plan: Plan, kept: Collection[str] = ()) -> Survey:
        """How it stands when one step's failure stops it, or when nothing can be started any more.

        A failure after which there is to be another plan comes last: what does not depend on it is done first, so that
        it is planned with all that there is to know. `kept`: steps that the plan before this one had, too.
        """
        self.versions.update((step.step_id, plan.version) for step in plan.steps if step.step_id not in kept)
        ends: Ends = asyncio.Queue()
        lanes: dict[str, asyncio.Task[None]] = {}
        try:
            while True:
                survey = await self._look(plan)
                if survey.failed(OnFailure.STOP) or not survey.wanted:
                    return survey
                for run in survey.wanted:
                    if run.key not in lanes:
                        work = await self.steps.work(run, survey)
                        lanes[run.key] = asyncio.create_task(self._lane(work, run, ends))
                ended = await ends.get()
                if isinstance(ended, Exception):
                    raise ended
                run, result = ended
                self.results[run.key] = await self.steps.checked(run, result)
        finally:  # nobody waits any more for what is still under way; the driver's end ends it
            for lane in lanes.values():
                lane.cancel()
            await asyncio.gather(*lanes.values(), return_exceptions=True)

    async def _look(self, plan: Plan) -> Survey:
        """Where it stands, once work that does not fit together is known as such."""
        known = Known(self.driver.request.task_id, self.versions, self.results, self.overruled)
        survey = survey_of(plan, known)
        while collision := await self.steps.collision(survey):
            key, failure = collision
            self.overruled[key] = failure
            survey = survey_of(plan, known)
        await self._show(survey.shown())
        return survey

    async def _show(self, plan: Plan) -> None:
        if plan != self._shown:
            self._shown = plan
            await self.driver.report(PlanChanged(plan=plan))

    async def _lane(self, work: Work, run: Run, ends: Ends) -> None:
        try:
            async with aclosing(self.driver.run([work])) as endings:
                async for ended in endings:
                    await ends.put((run, ended.result))
        except Exception as e:  # whatever it is, it is raised again by whoever waits for the endings
            await ends.put(e)
