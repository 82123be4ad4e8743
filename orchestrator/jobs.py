"""Short, repeatable side work, by arq. Now one job: each minute what the dead have left behind is swept up.

The only file that names arq. One of a fleet's orchestrators runs each job: arq takes a minute's job once.
"""

from __future__ import annotations

import json
from typing import Any

from arq import cron
from arq.connections import ArqRedis, RedisSettings, create_pool
from arq.worker import Worker

from envelope.lifecycle import TERMINAL
from envelope.logs import get_logger
from transport.base import TaskRecord, Transport
from transport.embedded import url_of
from transport.errors import NotFound

from .settings import Settings

log = get_logger("jobs")

JOB_TIMEOUT_S = 60
# A minute's job may start this late; each look costs Redis two commands, also when nothing happens.
POLL_S = 5.0
ORPHANS_LOOKED_AT = 1_000


async def connect_jobs(settings: Settings) -> ArqRedis:
    """The fleet's own job queue; what stands in it is JSON."""
    return await create_pool(
        RedisSettings.from_dsn(settings.redis_url or url_of(settings.state_dir)),
        job_serializer=_to_json,
        job_deserializer=json.loads,
        default_queue_name=f"muster:{settings.fleet}:jobs",
    )


def job_name(settings: Settings, name: str) -> str:
    """arq keeps all jobs of a server in one name space: without the fleet in it, two fleets would share a sweep."""
    return f"muster:{settings.fleet}:{name}"


async def run_jobs(transport: Transport, settings: Settings) -> None:
    """Until cancelled. A job that fails is logged by arq, and runs again in the next minute."""

    async def sweep_job(ctx: dict[Any, Any], *_args: Any, **_more: Any) -> int:
        return await sweep(transport)

    pool = await connect_jobs(settings)
    worker = Worker(
        cron_jobs=[cron(sweep_job, name=job_name(settings, "sweep"), second=0)],
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


async def sweep(transport: Transport) -> int:
    """End or requeue what workers left; stop shards whose batch ended while no orchestrator could tell them."""
    touched = await transport.reap()
    for record in await transport.tasks(limit=ORPHANS_LOOKED_AT):
        if record.batch_id and record.state not in TERMINAL and await _has_ended(transport, record):
            touched += await transport.cancel(record.task_id, by="sweep", reason="its batch has ended")
    if touched:
        log.info("swept", tasks=touched)
    return touched


async def _has_ended(transport: Transport, shard: TaskRecord) -> bool:
    try:
        return (await transport.record(shard.batch_id)).state in TERMINAL
    except NotFound:  # past its retention, or a batch that is no task
        return False


def _to_json(values: dict[str, Any]) -> bytes:
    return json.dumps(values, default=str).encode()
