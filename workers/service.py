"""A worker process: serves one pool until it is told to stop."""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from importlib.metadata import version
from typing import Any

from envelope.agents import ModelPrice, WorkerCard
from envelope.errors import MusterError
from envelope.logs import get_logger
from repo.weight import MAX_REPOSITORY_BYTES
from sandbox.base import SandboxDriver
from sandbox.choice import choose_driver
from sandbox.errors import SandboxError
from sandbox.first_use import require_fit
from sandbox.pool import WarmPool
from transport.approvals import PUBLIC
from transport.base import Transport
from transport.consumer import Consumer, withdraw
from transport.errors import TransportError
from transport.metrics.common import StoreCounts
from transport.metrics.health import Ready
from transport.metrics.process import serve_process
from transport.outbox import Outbox
from transport.rates import Quota
from transport.settings import connect

from .agent_task.task import AgentTasks
from .agents.base import Agent
from .agents.layers import Known
from .agents.project import ProjectAgents, own_agents
from .agents.registry import card
from .delivery.runner import Runner
from .equipment import Equipment
from .hooks.installed import installed_hooks
from .kit import Kit
from .llm.limited import Limiter
from .llm.limits import ModelLimits
from .llm.prices import Price
from .mcp.settings import with_grants
from .metrics import WorkerMetrics
from .models import Models
from .pricing import price_of
from .project.instructions import Guidance
from .sandboxes.collecting import collect_if_due
from .sandboxes.credentials import Credentials
from .sandboxes.elsewhere import Elsewhere
from .sandboxes.owners import owned
from .sandboxes.permits import permits_of
from .sandboxes.reaping import SWEEP_EVERY_S, sweep_host
from .sandboxes.turns import Turns
from .sandboxes.workspace import Workspaces
from .sessions.habits import Habits
from .settings import WorkerSettings
from .web.access import WebAccess, WithOwn
from .web.searching import JsonSearch

# A worker that was killed is forgotten after three announcements that did not come.
ANNOUNCE_EVERY_S = 5.0
CARD_TTL_S = 3 * ANNOUNCE_EVERY_S

# What a store or an engine that is away is raised as.
NOT_READY = (MusterError, SandboxError, OSError)

log = get_logger("service")


async def serve(settings: WorkerSettings, pool: str, *, stop: asyncio.Event, hurry: asyncio.Event) -> None:
    """Claim and run tasks of `pool` until `stop`; what runs then may end within `drain_grace_s`, and is given back.

    `hurry` ends that grace.

    Raises before the first claim when the store, the engine or the image is missing, each with a hint.
    """
    worker = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(3)}"
    own = own_agents(settings.permission)
    metrics = make_metrics(settings, pool, own)
    for fault in own.faults:
        log.warning("agent_file_refused", path=fault.path, error=fault.message, hint=fault.hint)
    async with _connected(settings, metrics) as transport, AsyncExitStack() as stack:
        # For longer than the driver: a worker that dies while it closes its sandboxes leaves some, and they are its.
        stack.enter_context(owned(settings.owners_dir, worker))
        driver = await stack.enter_async_context(_driver(settings, worker, metrics))
        for lack in await require_fit(driver, settings.image, settings.state_dir / "images"):
            log.warning("image_lacks", image=settings.image, lacks=lack)
        metrics.reaped("start", await sweep_host(driver, settings))
        runner = make_runner(settings, transport, driver, metrics, agents=own)
        consumer = Consumer(
            transport,
            pool=pool,
            worker=worker,
            slots=settings.slots,
            handle=runner.handle,
            on_event=metrics.observe,
            grace_s=settings.drain_grace_s,
        )
        checks = {"redis": transport.now_ms, "sandbox engine": driver.check}
        ready = Ready(asyncio.get_running_loop(), stop.is_set, checks, NOT_READY)
        port = stack.enter_context(serve_process(metrics.shown, settings, consumer.pulse, ready))
        price = await price_of(settings)

        def own_card() -> WorkerCard:
            return make_card(settings, worker, pool, port, runner.agents, price)

        async with _meanwhile(
            _announce(transport, own_card, stop), _keep_sweeping(driver, transport, settings, stop, metrics)
        ):
            log.info("worker_started", worker=worker, pool=pool, slots=settings.slots, metrics_port=port)
            await consumer.run(stop, hurry)
        await withdraw(transport, own_card())
        log.info("worker_stopped", worker=worker)


def make_metrics(settings: WorkerSettings, pool: str, own: Known) -> WorkerMetrics:
    """Models are told apart that the operator named anywhere."""
    models = (settings.model, settings.small_model, *settings.price_rows, *settings.model_limits)
    return WorkerMetrics(
        pool, models, agents=tuple(own.agents), slots=settings.slots, poison_after=settings.poison_after
    )


def make_runner(
    settings: WorkerSettings,
    transport: Transport,
    driver: SandboxDriver,
    metrics: WorkerMetrics,
    *,
    agents: Mapping[str, Agent] | Known,
) -> Runner:
    """The runner as a service has it; tests make theirs the same way."""
    credentials = Credentials(settings.credentials)
    credentials.require_secrets()
    workspaces = Workspaces(
        driver,
        transport.blobs,
        settings.cache_dir,
        settings.image,
        allowed_roots=settings.allowed_roots,
        protocols=settings.git_protocols,
        max_repository_bytes=settings.repositories_allowance.max_bytes or MAX_REPOSITORY_BYTES,
        setup_hosts=settings.setup_hosts,
        setup_limits=settings.setup_limits,
        credentials=credentials,
        private_addresses=settings.network_private_addresses,
        private_addresses_tenants=settings.private_addresses_tenants,
    )
    prices = {
        model: Price(row.input, row.output, row.cached, row.cache_write) for model, row in settings.price_rows.items()
    }
    models = Models(
        settings.model,
        settings.model_base_url,
        settings.model_api_key.get_secret_value(),
        prices,
        settings.model_engine,
        {model: ModelLimits(row.context, row.output, row.input) for model, row in settings.model_limits.items()},
        {model: row.sees for model, row in settings.model_limits.items() if row.sees is not None},
        settings.model_effort,
        settings.model_reasoning_key,
    )
    guidance = Guidance(settings.user_dir, settings.instructions)
    habits = Habits(
        settings.compaction, settings.compaction_reserved, settings.pruning, settings.titles, settings.small_model
    )
    equipment = Equipment(settings.mcp, settings.after_write, installed_hooks(), guidance, habits)
    own = agents if isinstance(agents, Known) else Known(agents)
    own = replace(own, agents=with_grants(own.agents, settings.mcp))
    quota = Quota(settings.model_requests_per_minute, settings.model_tokens_per_minute)
    limiter = Limiter(transport.rates, metrics, quota)
    agent_tasks = AgentTasks(
        Kit(
            transport,
            Outbox(transport),
            models,
            own.agents,
            equipment,
            limiter,
            settings.ask_timeout_s * 1000,
            web_access(settings),
            settings.subagent_depth,
        )
    )
    turns = Turns(driver, settings.shared_sandboxes)
    return Runner(
        transport,
        driver,
        workspaces,
        ProjectAgents(workspaces, own),
        agent_tasks,
        metrics,
        turns,
        permits_of(settings.state_dir),
    )


def web_access(settings: WorkerSettings) -> WebAccess:
    key = settings.search_api_key.get_secret_value()
    search = JsonSearch(settings.search_url, key, settings.search_key_header) if settings.search_url else None
    return WebAccess(WithOwn(settings.web_private_addresses), search, settings.private_addresses_tenants)


def make_card(
    settings: WorkerSettings,
    worker: str,
    pool: str,
    metrics_port: int,
    agents: ProjectAgents,
    price: ModelPrice | None,
) -> WorkerCard:
    """What a worker says of itself, as often as it announces itself: agents of projects come later."""
    return WorkerCard(
        worker=worker,
        pool=pool,
        slots=settings.slots,
        agents=tuple(card(agent) for agent in agents.own.agents.values()),
        projects=agents.cards(),
        host=socket.gethostname(),
        pid=os.getpid(),
        metrics_port=metrics_port,
        version=version("muster"),
        model=settings.model,
        price=price,
        commands=permits_of(settings.state_dir).count,
    )


@asynccontextmanager
async def _connected(settings: WorkerSettings, metrics: WorkerMetrics) -> AsyncGenerator[Transport]:
    transport = await connect(settings, watch=StoreCounts(metrics.shown), approves=False)
    if not transport.approvals.are_known:
        log.warning(
            "answers_unverified",
            hint=f"anybody with this worker's Redis password can answer for people: put {PUBLIC} beside the keyring",
        )
    try:
        yield transport
    finally:
        await transport.close()


@asynccontextmanager
async def _meanwhile(*chores: Coroutine[Any, Any, None]) -> AsyncGenerator[None]:
    """Run chores beside the body, and end them with it."""
    running = [asyncio.create_task(chore) for chore in chores]
    try:
        yield
    finally:
        for chore in running:
            chore.cancel()
        await asyncio.gather(*running, return_exceptions=True)


@asynccontextmanager
async def _driver(settings: WorkerSettings, worker: str, metrics: WorkerMetrics) -> AsyncGenerator[SandboxDriver]:
    chosen = await choose_driver(
        settings.sandbox_driver,
        settings.state_dir,
        worker,
        allow_private_egress=settings.setup_private_hosts,
        runtime=settings.sandbox_runtime,
        say=lambda line: log.info("sandbox_driver", what=line),
        watch=metrics,
    )
    driver = WarmPool(chosen, settings.warm_sandboxes, metrics, openings=metrics) if settings.warm_sandboxes else chosen
    try:
        yield driver
    finally:
        await driver.close()


async def _announce(transport: Transport, card: Callable[[], WorkerCard], stop: asyncio.Event) -> None:
    while not stop.is_set():
        try:
            await transport.announce(card(), ttl_s=CARD_TTL_S)
        except TransportError as e:  # the consumer waits for the store to come back, and so does this
            log.warning("announce_failed", error=str(e))
        await _wait(stop, ANNOUNCE_EVERY_S)


async def _keep_sweeping(
    driver: SandboxDriver, transport: Transport, settings: WorkerSettings, stop: asyncio.Event, metrics: WorkerMetrics
) -> None:
    elsewhere = Elsewhere(driver, transport, settings.owners_dir)
    while not stop.is_set():
        await _wait(stop, SWEEP_EVERY_S)
        swept, forsaken = await sweep_host(driver, settings), await elsewhere.sweep()
        metrics.reaped("sweep", swept)
        metrics.reaped("elsewhere", forsaken)
        if count := swept + forsaken:
            log.info("sandboxes_reaped", count=count)
        await collect_if_due(driver, settings)


async def _wait(stop: asyncio.Event, seconds: float) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await stop.wait()
