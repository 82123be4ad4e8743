"""The driver of one fan-out: a task for each item, at most so many at once, until enough have ended."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from functools import partial

from envelope.errors import ErrorCode
from envelope.messages import Attachment, ErrorInfo, Output, TaskResult

from ..budgets import share_cap
from ..driver import Driver, Ended, Work, completed, ended_with
from ..families import children_of
from ..gathering import Policy
from ..raises import sharing_raises
from ..submit import keyed, params_of, task_request
from .items import Item, items_of_blob, prompt_for, require_short, title_of
from .report import ANSWERS_NAME, Answer, answer_of, report_text
from .spec import FanoutParams


async def drive_fanout(driver: Driver) -> TaskResult:
    """Everything that is submitted has a content key, so that this can be killed anywhere and run again."""
    params = params_of(FanoutParams, driver.request)
    content = await driver.transport.blobs.get(params.items)
    items = await driver.aside(partial(items_of_blob, content, count=params.count))
    await driver.aside(partial(require_short, driver.request.input.prompt, items))
    works: list[Work] = []
    for item in items:
        works.append(_work(driver, params, item))
        await asyncio.sleep(0)  # others of this process go on meanwhile
    endings: dict[str, Ended] = {}
    async with (
        sharing_raises(driver, partial(_share, driver, params)),
        aclosing(_run(driver, works, params.max_running)) as ends,
    ):
        async for ended in ends:
            endings[ended.work.key] = ended
            if params.want.is_met([each.result for each in endings.values()]):
                break
    return await _concluded(driver, params, [(item, endings.get(item["number"])) for item in items], endings)


def _work(driver: Driver, params: FanoutParams, item: Item) -> Work:
    """A root in a trace of its own, as a batch's shards are: equal parts of the money, found again by what it is. What
    is to be compared is asked for anew each time, however equal the words."""
    request = driver.request
    compared = params.want.policy in (Policy.BEST, Policy.QUORUM)
    child = task_request(
        driver=request,
        agent=params.agent,
        pool=params.pool,
        prompt=prompt_for(request.input.prompt, item),
        workspace=request.workspace,
        auth_scope=params.auth_scope,
        budget=request.budget.model_copy(update={"max_cost_microusd": _part(driver, params)}),
        deadline_ms=driver.remaining_ms,
        intent=f"fan-out: {title_of(item)}"[:200],
        model=request.model,
        sender="fanout",
    )
    return Work(item["number"], keyed(child, "item", item["number"] if compared else ""), title_of(item))


def _part(driver: Driver, params: FanoutParams) -> int | None:
    """Of the money, for each item; always the same, for it is a part of what finds the item's task again."""
    cap = driver.request.budget.max_cost_microusd
    return None if cap is None else cap // params.count


async def _share(driver: Driver, params: FanoutParams, cap_microusd: int) -> bool:
    """Items that are not begun keep their part."""
    root = await driver.transport.record(driver.request.task_id)
    begun = await children_of(driver.transport, root)
    kept_microusd = max(0, params.count - len(begun)) * (_part(driver, params) or 0)
    return await share_cap(driver.transport, root, begun, cap_microusd, kept_microusd=kept_microusd)


async def _run(driver: Driver, works: Sequence[Work], max_running: int | None) -> AsyncGenerator[Ended]:
    """As `driver.run`, with at most `max_running` tasks submitted and not ended."""
    if max_running is None or max_running >= len(works):
        async with aclosing(driver.run(works)) as endings:
            async for ended in endings:
                yield ended
        return
    left = iter(works)
    ends: asyncio.Queue[Ended | Exception] = asyncio.Queue()

    async def lane() -> None:
        try:
            for work in left:
                async for ended in driver.run([work]):
                    await ends.put(ended)
        except Exception as e:  # whatever it is, it is raised again by whoever waits for the endings
            await ends.put(e)

    lanes = [asyncio.create_task(lane()) for _ in range(max_running)]
    try:
        for _ in works:
            ended = await ends.get()
            if isinstance(ended, Exception):
                raise ended
            yield ended
    finally:
        for running in lanes:
            running.cancel()
        await asyncio.gather(*lanes, return_exceptions=True)


async def _concluded(
    driver: Driver, params: FanoutParams, pairs: Sequence[tuple[Item, Ended | None]], endings: dict[str, Ended]
) -> TaskResult:
    answers = [
        answer_of(item, ended.result, cost_microusd=ended.cost_microusd) if ended else answer_of(item, None)
        for item, ended in pairs
    ]
    ended_results = [ended.result for ended in endings.values()]
    chosen = params.want.chosen(ended_results)
    good = sum(completed(result) for result in ended_results)
    structured = {
        "items": len(answers),
        "completed": good,
        "failed": len(ended_results) - good,
        "not_waited_for": len(answers) - len(ended_results),
        "chosen": chosen.task_id if chosen else None,
    }
    return ended_with(
        driver,
        *_errors(params, ended_results, chosen),
        output=Output(text=report_text(answers, chosen.task_id if chosen else ""), structured=structured),
        attachments=(await _attached(driver, answers),),
        patch=chosen.patch if chosen else None,
    )


def _errors(params: FanoutParams, ended: Sequence[TaskResult], chosen: TaskResult | None) -> list[ErrorInfo]:
    failed = [result for result in ended if not completed(result)]
    if params.want.policy is Policy.ALL:
        if not failed:
            return []
        first = failed[0].errors[0] if failed[0].errors else None
        why = first.message if first else f"it ended as {failed[0].status}"
        alone = len(failed) == len(ended) and first is not None
        code = first.code if alone and first else ErrorCode.PARTIAL
        hint = f"see it: muster task show {failed[0].task_id}; run the same command again for those that failed"
        return [ErrorInfo.of(code, f"{len(failed)} of {len(ended)} tasks failed; the first: {why}", hint)]
    if chosen is not None:
        return []
    lacking = f"no {params.quorum} gave the same answer" if params.want.policy is Policy.QUORUM else "none completed"
    return [ErrorInfo.of(ErrorCode.NO_ANSWER, f"of {len(ended)} tasks {lacking}", "the report has what each one said")]


async def _attached(driver: Driver, answers: Sequence[Answer]) -> Attachment:
    content = b"".join(answer.model_dump_json().encode() + b"\n" for answer in answers)
    blob = await driver.transport.blobs.put(content)
    return Attachment(blob=blob, name=ANSWERS_NAME, media_type="application/jsonl", size_bytes=len(content))
