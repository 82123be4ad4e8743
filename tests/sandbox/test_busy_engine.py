"""An engine that is too busy to freeze a container is asked again. The engine is a server of the test's own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from aiohttp import web

from sandbox import docker
from sandbox.docker import Engine
from sandbox.errors import SandboxError, SandboxLost

Start = Callable[..., Awaitable[list[str]]]
BUSY = (500, "Cannot pause container x: OCI runtime pause failed: unable to freeze")


@pytest.fixture
async def engine_answers(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Start]:
    """`await engine_answers(BUSY, …)`: each pause has the next answer (204 at the end); returns the calls."""
    runners: list[web.AppRunner] = []

    async def start(*answers: tuple[int, str]) -> list[str]:
        left, calls = list(answers), list[str]()

        async def answer(request: web.Request) -> web.Response:
            if request.path.endswith("/version"):
                return web.json_response({"ApiVersion": "1.43"})
            calls.append(request.path.rpartition("/")[2])
            status, message = left.pop(0) if left else (204, "")
            return web.json_response({"message": message}, status=status) if message else web.Response(status=status)

        app = web.Application()
        app.router.add_route("*", "/{rest:.*}", answer)
        runners.append(web.AppRunner(app))
        await runners[-1].setup()
        site = web.TCPSite(runners[-1], "127.0.0.1", 0)
        await site.start()
        host, port = runners[-1].addresses[0][:2]
        monkeypatch.setenv("DOCKER_HOST", f"tcp://{host}:{port}")
        return calls

    yield start
    for runner in runners:
        await runner.cleanup()


async def freeze() -> None:
    engine = Engine()
    try:
        await engine.pause("x")
    finally:
        await engine.close()


async def test_a_container_that_could_not_be_frozen_at_once_is_frozen_at_the_second_try(engine_answers: Start):
    calls = await engine_answers(BUSY)

    await freeze()

    assert calls == ["pause", "pause"]


async def test_an_engine_that_is_busy_nine_times_is_asked_a_tenth_time(
    engine_answers: Start, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(docker, "FREEZE_RETRY_S", 0)
    calls = await engine_answers(*[BUSY] * 9)

    await freeze()

    assert calls == ["pause"] * 10


async def test_who_refuses_to_the_last_has_refused(engine_answers: Start, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(docker, "FREEZE_RETRY_S", 0)
    calls = await engine_answers(*[BUSY] * 11)

    with pytest.raises(SandboxError, match="unable to freeze"):
        await freeze()

    assert calls == ["pause"] * 10


async def test_a_container_that_is_gone_is_not_asked_again(engine_answers: Start):
    calls = await engine_answers((404, "No such container: x"))

    with pytest.raises(SandboxLost):
        await freeze()

    assert calls == ["pause"]
