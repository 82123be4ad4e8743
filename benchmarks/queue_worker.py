"""A worker process of ours for the measurements: serves no-op tasks until it has finished its number of them.

python -m benchmarks.queue_worker URL FLEET KEYRING SLOTS COUNT WORK_S NAME
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
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
    done, finished = asyncio.Event(), 0

    def count_finished(event: ConsumerEvent) -> None:
        nonlocal finished
        finished += event.what is What.FINISHED
        if finished == count:
            done.set()

    consumer = Consumer(
        transport, pool=POOL, worker=worker, slots=slots,
        handle=lambda delivery: noop(delivery, transport, work_s), on_event=count_finished,
    )  # fmt: skip
    print(json.dumps({"ready": True}), flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    began_ns, cpu = time.monotonic_ns(), time.process_time()
    serving = asyncio.create_task(consumer.run(asyncio.Event()))
    await done.wait()
    ended_ns, cpu_s = time.monotonic_ns(), time.process_time() - cpu
    row = {"began_ns": began_ns, "ended_ns": ended_ns, "cpu_us_per_task": cpu_s / max(1, finished) * 1e6}
    print(json.dumps(row), flush=True)
    await serving


def main() -> None:
    url, fleet, keys, slots, count, work_s, name = sys.argv[1:]
    serving = serve(url, fleet, Path(keys), int(slots), int(count), float(work_s), name)
    process.run(serving)


if __name__ == "__main__":
    main()
