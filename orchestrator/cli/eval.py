"""`muster eval`: cases with gates, tried by models, agents and prompts, and compared."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from envelope.errors import ExitCode
from envelope.messages import TaskResult

from ..batch.plan import Sources
from ..client import Muster
from ..evaluation.client import WRITES, EvalFields
from ..evaluation.file import load_suite
from ..evaluation.formats import FORMATS
from ..evaluation.plan import EvalPreview, PlannedSuite, planned
from ..evaluation.report import report_of
from ..session.fold import Session
from ..submit import EVAL
from ..units import dollars
from .console import answer, data, note
from .estimate import Spending, agreed
from .fleet import open_fleet
from .follow import follow
from .leaving import leave, require_lasting, tell_known
from .options import AllowDirty, Detach, Json, Yes, writing_settings
from .outcome import exit_code_after
from .report_forms import Wanted, wanted_reports
from .reports import write_each
from .summary import Line, print_lines, summary_of_eval

Report = Annotated[
    list[str] | None,
    typer.Option(
        "--report", metavar="FORM=PATH", help=f"Write a report at the end; as often as you like. {', '.join(FORMATS)}."
    ),
]


@dataclass(frozen=True, slots=True)
class _Asked:
    """The command line, as it was meant."""

    reports: tuple[Wanted, ...]
    record: Path | None
    recorded: Path | None
    allow_dirty: bool
    as_json: bool
    detach: bool
    yes: bool

    @property
    def fields(self) -> EvalFields:
        return {"record": self.record is not None, "recorded": self.recorded, "sender": "cli"}


def evaluate(
    suite: Annotated[Path, typer.Argument(metavar="SUITE", help="The suite file: TOML or YAML.")],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what it would do, and the most that it may cost.")
    ] = False,
    report: Report = None,
    record: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Keep what the models say, a cassette for each sample.")
    ] = None,
    recorded: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Ask no model: play the cassettes of an earlier --record.")
    ] = None,
    allow_dirty: AllowDirty = False,
    as_json: Json = False,
    detach: Detach = False,
    yes: Yes = False,
) -> None:
    """Have each variant of SUITE try each case, judge every try by the case's gate, and compare the variants.

    Killing this command stops nothing. Running it again joins it, or does what is missing: nothing is judged twice.
    """
    asked = _Asked(wanted_reports(report, FORMATS), record, recorded, allow_dirty, as_json, detach, yes)
    raise typer.Exit(asyncio.run(_preview(suite, asked) if dry_run else _run(suite, asked)))


async def _preview(suite: Path, asked: _Asked) -> int:
    settings = writing_settings(WRITES)
    found = (await _planned(suite, asked)).preview(settings, recorded=asked.recorded is not None)
    if asked.as_json:
        data(found.model_dump_json())
    else:
        print_lines(_lines(found))
    return ExitCode.OK


async def _planned(suite: Path, asked: _Asked) -> PlannedSuite:
    settings = writing_settings(WRITES)
    sources = Sources(allow_dirty=asked.allow_dirty, tell=note)
    return await planned(load_suite(suite), suite, settings, sources)


async def _run(suite: Path, asked: _Asked) -> int:
    settings = writing_settings(WRITES)
    if asked.detach:
        require_lasting(settings)
    plan = await _planned(suite, asked)
    async with open_fleet(settings) as muster:
        request = await muster.evals.request(plan, **asked.fields)
        if not await _agreed(muster, plan, asked):
            note("nothing was submitted")
            return ExitCode.CANCELLED
        handle = await muster.submit_repeatable(request)
        await tell_known(muster, handle)
        if asked.detach:
            return leave(settings, handle, "muster attach")
        view = Session.of(handle.task_id, handle.trace_id, agent=EVAL, title=plan.spec.name)
        followed = await follow(muster, view, as_json=asked.as_json, may_ask=False)
        if followed.result is not None:
            await _conclude(muster, followed.view, followed.result, asked)
        return exit_code_after(followed)


async def _agreed(muster: Muster, plan: PlannedSuite, asked: _Asked) -> bool:
    """Tell what it will about cost; False when the person says no."""
    found = muster.evals.preview(plan, recorded=asked.recorded is not None)
    if found.recorded:
        return True
    model = next((variant.model for variant in plan.variants if variant.model), "")
    prompt = max((case.prompt for case in plan.spec.cases), key=len)
    may_ask = not (asked.yes or asked.detach or asked.as_json)
    spending = Spending(prompt, model, found.cap_microusd, may_ask, agents=found.samples)
    settings = muster.settings
    return await agreed(spending, await muster.workers(), ask_above_microusd=settings.ask_above_microusd)


async def _conclude(muster: Muster, view: Session, result: TaskResult, asked: _Asked) -> None:
    if report_of(result) is None:
        summary_of_eval(view, result, None).print()
        return
    report = await muster.evals.report(result.task_id)
    write_each(asked.reports, lambda form: FORMATS[form](report))
    if asked.record is not None:
        files = await muster.evals.recordings(result.task_id, asked.record)
        note(f"{len(files)} recording(s) are below {asked.record}; play them with --recorded {asked.record}")
    if not asked.as_json:
        answer(result.output.text)
    summary_of_eval(view, result, report).print()


def _lines(found: EvalPreview) -> list[Line]:
    tries = f", {found.tries} times" if found.tries > 1 else ""
    lines: list[Line] = [
        ("suite", found.name),
        ("cases", ", ".join(found.cases)),
        ("variants", ", ".join(found.variants)),
        ("samples", f"{found.samples}: each case by each variant{tries}; {found.concurrency} at once"),
    ]
    if found.recorded:
        return [*lines, ("cost", "nothing: no model is asked")]
    each = "" if found.sample_microusd is None else f", {dollars(found.sample_microusd)} a sample"
    most, cap = dollars(found.max_cost_microusd), dollars(found.cap_microusd)
    if found.cap_microusd - found.max_cost_microusd < found.samples:  # equal parts of the whole are rounded down
        return [*lines, ("cost", f"at most {cap}{each}")]
    return [*lines, ("cost", f"at most {most}{each}; never more than {cap} where tries are lost and made again")]
