"""Short, repeatable side work: what the dead have left behind, and blobs that nobody needs any more.

By arq, on a fleet with one server: of its orchestrators one runs each job. arq follows no Sentinel with passwords or
TLS, and its transactions span the slots of a cluster: there each orchestrator runs the jobs by its own timer, which
does no harm, because every job may be done twice. The only file that names arq.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import parse_qs, urlsplit

from arq import cron
from arq.connections import ArqRedis
from arq.cron import CronJob
from arq.worker import Worker

from envelope.lifecycle import TERMINAL
from envelope.logs import get_logger
from transport.base import TaskRecord, Transport
from transport.embedded import url_of
from transport.errors import NotFound

from .pages import records_of
from .settings import Settings

log = get_logger("jobs")

JOB_TIMEOUT_S = 60
# A minute's job may start this late; each look costs Redis two commands, also when nothing happens.
POLL_S = 5.0


async def connect_jobs(settings: Settings) -> ArqRedis:
    """The fleet's own job queue; what stands in it is JSON."""
    url = _url(settings)
    # not arq's own reading of a URL: it leaves the TLS files out, and takes a password's %40 for its text
    factory = cast(Callable[..., ArqRedis], ArqRedis.from_url)  # pyright: ignore[reportUnknownMemberType]
    pool = factory(url, **_tls(url))
    pool.job_serializer = _to_json
    pool.job_deserializer = json.loads
    pool.default_queue_name = f"muster:{settings.fleet}:jobs"
    return pool


def _url(settings: Settings) -> str:
    return settings.redis_url or url_of(settings.state_dir)


def _tls(url: str) -> dict[str, bool]:
    """The library checks the certificate, but the server's name only when it is told to."""
    parts = urlsplit(url)
    unchecked = parse_qs(parts.query).get("ssl_cert_reqs") == ["none"]
    return {"ssl_check_hostname": True} if parts.scheme == "rediss" and not unchecked else {}


def job_name(settings: Settings, name: str) -> str:
    """arq keeps all jobs of a server in one name space: without the fleet in it, two fleets would share a sweep."""
    return f"muster:{settings.fleet}:{name}"


async def run_jobs(transport: Transport, settings: Settings) -> None:
    """Until cancelled. What a job raises arq logs, and runs the job again at its time; a timer raises it."""
    if "+" in urlsplit(_url(settings)).scheme:
        await _run_by_timer(transport)
    else:
        await _run_by_arq(transport, settings)


async def _run_by_timer(transport: Transport) -> None:
    async with asyncio.TaskGroup() as group:
        for job in JOBS.values():
            group.create_task(_repeat(job, transport))


async def _repeat(job: Job, transport: Transport) -> None:
    # orchestrators that started together do not all come at once
    pause_s = 0.0 if job.at_start else random.uniform(0, job.period_s)  # noqa: S311
    while True:
        await asyncio.sleep(pause_s)
        await job.work(transport)
        pause_s = job.period_s


async def _run_by_arq(transport: Transport, settings: Settings) -> None:
    pool = await connect_jobs(settings)
    worker = Worker(
        cron_jobs=[_cron(job, transport, job_name(settings, name)) for name, job in JOBS.items()],
        redis_pool=pool,
        queue_name=pool.default_queue_name,
        handle_signals=False,
        job_timeout=JOB_TIMEOUT_S,
        poll_delay=POLL_S,
        job_serializer=_to_json,
        job_deserializer=json.loads,
    )
    try:
        await worker.async_run()
    finally:
        await worker.close()


def _cron(job: Job, transport: Transport, name: str) -> CronJob:
    async def run(ctx: dict[Any, Any], *_args: Any, **_more: Any) -> int:
        return await job.work(transport)

    return cron(run, name=name, minute=job.minute, second=job.second, run_at_startup=job.at_start)


async def sweep(transport: Transport) -> int:
    """End or requeue what workers left; stop shards whose batch ended while no orchestrator could tell them."""
    touched = await transport.reap()
    over: dict[str, bool] = {}  # by batch
    async for shard in records_of(transport.live_roots, shards=True):
        if shard.batch_id not in over:
            over[shard.batch_id] = await _has_ended(transport, shard)
        if over[shard.batch_id]:
            touched += await transport.cancel(shard.task_id, by="sweep", reason="its batch has ended")
    if touched:
        log.info("swept", tasks=touched)
    return touched


async def _has_ended(transport: Transport, shard: TaskRecord) -> bool:
    try:
        return (await transport.record(shard.batch_id)).state in TERMINAL
    except NotFound:  # past its retention, or a batch that is no task
        return False


async def collect(transport: Transport) -> int:
    """Remove the blobs whose life is over by the fleet's clock and by ours: a wrong one must not empty a store."""
    now_ms = min(await transport.now_ms(), time.time_ns() // 1_000_000)
    gone = await transport.blobs.collect(now_ms=now_ms)
    if gone:
        log.info("collected", blobs=gone)
    return gone


@dataclass(frozen=True, slots=True)
class Job:
    """`minute`: of the hour; None: of each. `second`: of the minute. The number that it returns is logged by arq."""

    work: Callable[[Transport], Awaitable[int]]
    minute: int | None
    second: int
    at_start: bool = False

    @property
    def period_s(self) -> float:
        return 60.0 if self.minute is None else 3600.0


JOBS = {
    "sweep": Job(sweep, minute=None, second=0),
    # hours are short beside a blob's life; a fleet on a desk is seldom up at the minute, but it starts
    "collect": Job(collect, minute=30, second=30, at_start=True),
}


def _to_json(values: dict[str, Any]) -> bytes:
    return json.dumps(values, default=str).encode()
