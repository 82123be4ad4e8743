"""The orchestrator process: claims goals and batches, announces itself, runs the jobs.

    python -m orchestrator.service

SIGTERM and SIGINT drain: what is under way is given back, and the next orchestrator goes on with it.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import socket
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack

from envelope import logs
from envelope.agents import AgentCard, WorkerCard
from envelope.errors import ErrorCode, ExitCode, MusterError, ScopeExceeded, error_text, told_of_file
from envelope.messages import ErrorInfo, TaskResult
from envelope.tracing.starting import traced
from repo.errors import RepoError
from transport.base import Transport
from transport.consumer import Consumer, Delivery, StopReason, withdraw
from transport.errors import Fenced, NotFound, Refused
from transport.metrics.common import StoreCounts
from transport.metrics.health import Ready
from transport.metrics.process import serve_process
from transport.redis import RedisTransport
from transport.settings import connect
from transport.state_folder import keep_files_private
from transport.watchdog import allow_most_files, bound_memory, watch_steps

from .batch.run import drive_batch
from .driver import Driver, DriverContext, ended_with, open_driver
from .errors import BadInput, TaskFailed, code_of, exit_code_of
from .evaluation.drive import drive_eval
from .fanout.drive import drive_fanout
from .goal import drive_goal
from .jobs import run_jobs
from .looking import WouldWrite
from .metrics import OrchestratorMetrics
from .metrics.fleet import FleetView
from .metrics.published import Published
from .mirrors import keep_mirrors
from .read_only import require_own_sessions, require_read_only
from .sealing import keep_sealed
from .settings import Settings, load_settings
from .submit import BATCH, DRIVERS, EVAL, FANOUT, RUN

log = logs.get_logger("orchestrator")

DRIVES: dict[str, Callable[[Driver], Awaitable[TaskResult]]] = {
    RUN: drive_goal,
    BATCH: drive_batch,
    FANOUT: drive_fanout,
    EVAL: drive_eval,
}

# Forgotten after two missed announcements, so that a dead process is not shown for long.
ANNOUNCE_EVERY_S, ANNOUNCE_TTL_S = 10.0, 25.0
HELPER_PAUSE_S = 5.0
LOOK_AROUND_EACH = 3  # of the looks at the fleet

# What may stop a driver. Anything else is a fault of ours: the consumer reports it as internal.
FORESEEN = (BadInput, WouldWrite, ScopeExceeded, Refused, NotFound, RepoError)


def handler_of(context: DriverContext) -> Callable[[Delivery], Awaitable[TaskResult]]:
    """What a consumer of the drivers' queue does with a task; a driver's mirrors are let go however it ends."""

    async def handle(delivery: Delivery) -> TaskResult:
        try:
            return await _drive(await open_driver(delivery, context))
        finally:
            context.mirrors.release(delivery.claim.lease)

    return handle


async def _drive(driver: Driver) -> TaskResult:
    """What escapes is the consumer's: a lost lease, a lost connection, a fault of ours."""
    try:
        result = await _outcome(driver)
    except asyncio.CancelledError:
        # Given back or lost, the driver runs again elsewhere and finds its tasks; else nobody would want them.
        if driver.delivery.stop_reason in (StopReason.CANCELLED, StopReason.EXPIRED):
            await asyncio.shield(driver.stop_all(driver.delivery.stop_detail or "its time is over"))
        raise
    if not await driver.is_still_ours():
        # a failover forgot this attempt; whoever drives the one that was submitted again has the same tasks
        raise Fenced(f"the queue has forgotten this attempt of {driver.request.task_id}")
    await driver.stop_all("its goal or batch has ended")
    return result


async def _outcome(driver: Driver) -> TaskResult:
    agent = driver.request.agent
    try:
        drive = DRIVES.get(agent)
        if drive is None:
            raise BadInput(f"the orchestrator has no agent {agent!r}", hint=f"it has: {', '.join(DRIVES)}")
        if driver.context.read_only:
            await require_own_sessions(driver.transport, [driver.request])
            require_read_only(driver.request)
        return await drive(driver)
    except TaskFailed as e:
        return ended_with(driver, e.error)
    except FORESEEN as e:
        return ended_with(driver, ErrorInfo.of(code_of(e) or ErrorCode.INTERNAL, str(e), e.hint))


async def serve(settings: Settings, stop: asyncio.Event, hurry: asyncio.Event) -> None:
    """Work until `stop` is set, then drain: drivers are given back, and go on elsewhere. `hurry`: at once."""
    metrics = OrchestratorMetrics()
    async with AsyncExitStack() as stack:
        store = StoreCounts(metrics.shown)
        transport = await connect(settings, pools=settings.known_pools, watch=store)
        stack.push_async_callback(transport.close)
        card = _card(settings)
        context = DriverContext(transport, settings.cache_dir, metrics, read_only=settings.read_only)
        handle = handler_of(context)
        consumer = Consumer(
            transport,
            pool=DRIVERS,
            worker=card.worker,
            slots=card.slots,
            handle=handle,
            on_event=metrics.observe,
        )
        ready = Ready(asyncio.get_running_loop(), stop.is_set, {"redis": transport.now_ms}, (MusterError, OSError))
        port = stack.enter_context(serve_process(metrics.shown, settings, consumer.pulse, ready))
        card = card.model_copy(update={"metrics_port": port})
        if isinstance(transport, RedisTransport) and (fault := await transport.lua_fault()):
            log.warning("redis_lua_is_shared", why=f"the Redis server {fault[0]}", hint=fault[1])
        log.info("orchestrator_started", worker=card.worker, metrics_port=port)
        view = FleetView(transport, metrics.shown, hears_news=bool(settings.webhooks))
        published = Published(settings.state_dir / "publications", metrics)
        helpers = (
            lambda: announce(transport, card),
            lambda: show_fleet(view, published, settings),
            lambda: run_jobs(transport, settings),
            lambda: keep_mirrors(settings),
            lambda: keep_sealed(transport, settings),
            *_webhooks(transport, settings),
        )
        async with asyncio.TaskGroup() as group:
            helping = [group.create_task(_keep_up(helper)) for helper in helpers]
            await consumer.run(stop, hurry)
            for task in helping:
                task.cancel()
        await withdraw(transport, card)
        log.info("orchestrator_drained", worker=card.worker)


async def _keep_up(helper: Callable[[], Awaitable[None]]) -> None:
    """A helper that fails starts again: goals and batches must not end for want of a heartbeat or a sweep."""
    while True:
        try:
            await helper()
        except Exception as e:  # whatever it is, the drivers beside it go on; arq raises Redis's own errors
            log.warning("helper_failed", error=str(e), again_in_s=HELPER_PAUSE_S)
        await asyncio.sleep(HELPER_PAUSE_S)


def _webhooks(transport: Transport, settings: Settings) -> Iterator[Callable[[], Awaitable[None]]]:
    """Nothing without any: no command to Redis, nor the HTTP client, which takes longer to load than all else."""
    if not settings.webhooks:
        return
    from .webhooks.run import run_webhooks

    hooks, url, timeout_s = settings.webhooks, settings.public_url, settings.webhook_timeout_s
    yield lambda: run_webhooks(transport, hooks, public_url=url, timeout_s=timeout_s)


async def announce(transport: Transport, card: WorkerCard) -> None:
    while True:
        await transport.announce(card, ttl_s=ANNOUNCE_TTL_S)
        await asyncio.sleep(ANNOUNCE_EVERY_S)


async def show_fleet(view: FleetView, published: Published, settings: Settings) -> None:
    """Show how the fleet stands. Every process looks for itself: a gauge must not be stale."""
    for number in itertools.count():
        await view.look({DRIVERS, *settings.pools})
        if number % LOOK_AROUND_EACH == 0:
            await view.look_around()
            await published.look()
        await asyncio.sleep(ANNOUNCE_EVERY_S)


def _card(settings: Settings) -> WorkerCard:
    host, pid = socket.gethostname(), os.getpid()
    return WorkerCard(
        worker=f"{DRIVERS}-{host}-{pid}-{os.urandom(3).hex()}",  # containers share host names and pids
        pool=DRIVERS,
        slots=settings.driver_slots,
        agents=tuple(AgentCard(name=name, mode="driver", pool=DRIVERS, hidden=True) for name in DRIVES),
        host=host,
        pid=pid,
    )


async def _main() -> None:
    keep_files_private()
    settings = load_settings()
    logs.configure_service(level=settings.log_level, style=settings.log_format)
    stop, hurry = asyncio.Event(), asyncio.Event()

    def told() -> None:
        (hurry if stop.is_set() else stop).set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, told)
    with traced("muster-orchestrator"):
        await serve(settings, stop, hurry)


def main() -> int:
    """The process's exit code; what stopped it is one sentence on stderr."""
    watch_steps()
    bound_memory()
    allow_most_files()
    try:
        asyncio.run(_main())
    except MusterError as e:
        sys.stderr.write(error_text(e.message, e.hint))
        return exit_code_of(e) or ExitCode.INFRASTRUCTURE
    except OSError as e:
        if e.filename is None:
            raise
        hint = "name a folder that this user may write to: MUSTER_STATE_DIR"
        sys.stderr.write(error_text(*told_of_file(e, e.filename, f"{e.filename} cannot be used", hint)))
        return ExitCode.USAGE
    return ExitCode.OK


if __name__ == "__main__":
    sys.exit(main())
