"""A worker process of ours for the measurements: serves no-op tasks until it has finished its number of them.

python -m benchmarks.queue_worker URL FLEET KEYRING SLOTS COUNT WORK_S NAME
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from envelope.events import TurnStarted
from envelope.lifecycle import State
from envelope.messages import Metrics, Output, TaskProgress, TaskResult
from transport import keyring
from transport.base import Transport
from transport.consumer import Consumer, ConsumerEvent, Delivery, Ending, What
from transport.redis import connect_redis
from workers import process

POOL = "general"
# So long after its last task a worker has all that it will get; it begins only when there is something to do.
IDLE_S = 2.0


async def noop(delivery: Delivery, transport: Transport, work_s: float) -> TaskResult | Ending:
    """Three events: the queue's `running`, one progress, the result.

    As in a worker's own reports, what happens right before the end is told with it.
    """
    started_ns = time.monotonic_ns()
    lease = delivery.claim.lease
    ids: dict[str, Any] = {"trace_id": lease.trace_id, "task_id": lease.task_id, "attempt": lease.attempt}
    progress = TaskProgress(**ids, seq=0, at_ms=0, status=State.RUNNING, events=(TurnStarted(turn=1, model="none"),))
    output = Output(text="done", structured={"started_ns": started_ns})
    result = TaskResult(**ids, status=State.COMPLETED, output=output, metrics=Metrics(turns=1))
    if not work_s:
        return Ending(result, progress)
    await transport.emit(lease, progress)
    await asyncio.sleep(work_s)
    return result


async def serve(url: str, fleet: str, keys: Path, slots: int, count: int, work_s: float, worker: str) -> None:
    """Says when it is ready, begins when told (two workers begin together), says when its share is done, and goes on
    until it is killed: nobody's last tasks are done faster because another has stopped."""
    transport = await connect_redis(url, keyring=keyring.load_or_create(keys), fleet=fleet)
    done, finished, ended_ns = asyncio.Event(), 0, 0

    def count_finished(event: ConsumerEvent) -> None:
        nonlocal finished, ended_ns
        if event.what is What.FINISHED and not done.is_set():
            finished, ended_ns = finished + 1, time.monotonic_ns()
            if finished == count:
                done.set()

    async def until_done_or_idle() -> None:
        """Where another worker was faster, there is less than a share left."""
        before = -1
        while finished != before and not done.is_set():
            before = finished
            with suppress(TimeoutError):
                async with asyncio.timeout(IDLE_S):
                    await done.wait()

    consumer = Consumer(
        transport, pool=POOL, worker=worker, slots=slots,
        handle=lambda delivery: noop(delivery, transport, work_s), on_event=count_finished,
    )  # fmt: skip
    print(json.dumps({"ready": True}), flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    began_ns, cpu = time.monotonic_ns(), time.process_time()
    serving = asyncio.create_task(consumer.run(asyncio.Event()))
    await until_done_or_idle()
    cpu_s = time.process_time() - cpu
    row = {
        "began_ns": began_ns, "ended_ns": ended_ns, "tasks": finished, "cpu_us_per_task": cpu_s / max(1, finished) * 1e6
    }  # fmt: skip
    print(json.dumps(row), flush=True)
    await serving


def main() -> None:
    url, fleet, keys, slots, count, work_s, name = sys.argv[1:]
    serving = serve(url, fleet, Path(keys), int(slots), int(count), float(work_s), name)
    process.run(serving)


if __name__ == "__main__":
    main()
