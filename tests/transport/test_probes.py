"""What probes are told: a loop that stands still is dead though its port answers, one that waits for work is not."""

from __future__ import annotations

import asyncio
import math
import socket
import threading
import time
import urllib.error
import urllib.request
from http.client import HTTPConnection

import pytest

from envelope.ids import new_task_id, new_trace_id
from envelope.messages import TaskRequest, TaskResult
from transport.consumer import Consumer, Delivery
from transport.errors import Misconfigured, Unreachable
from transport.memory import MemoryTransport
from transport.metrics import server
from transport.metrics.common import COMMON
from transport.metrics.health import Ready
from transport.metrics.process import serve_process
from transport.metrics.pulse import Pulse
from transport.metrics.shown import Shown
from transport.settings import FleetSettings

HANGS_S = 60.0  # only bounds a hang
LIMIT_S = 3.0  # above the one second in which a loop that is well shows a sign of life


def ask(port: int, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=HANGS_S) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code, refused.read().decode()


def ask_when_free(port: int) -> tuple[int, str]:
    """The thread of a connection that has ended may take a moment to give its place back."""
    end_s = time.monotonic() + HANGS_S
    while True:
        try:
            return ask(port, "/healthz")
        except OSError:
            assert time.monotonic() < end_s


def until(port: int, path: str, status: int) -> str:
    """What it says as soon as it answers so; every look is a round trip over HTTP."""
    end_s = time.monotonic() + HANGS_S
    while (answer := ask(port, path))[0] != status:
        assert time.monotonic() < end_s, answer
    return answer[1]


class Served:
    """A consumer on an event loop in a thread of its own, with its three pages. Its one task stops the whole loop."""

    def __init__(self) -> None:
        self.blocked, self.go_on = threading.Event(), threading.Event()
        self.up, self.port, self.store_is_up = threading.Event(), 0, True
        self.looked, self.told = threading.Event(), ()
        self.thread = threading.Thread(target=lambda: asyncio.run(self._run()))

    async def _run(self) -> None:
        transport = MemoryTransport()
        self.loop, self.stop = asyncio.get_running_loop(), asyncio.Event()
        self.transport = transport
        consumer = Consumer(transport, pool="explore", worker="w", slots=1, handle=self._handle)

        async def asks_store() -> None:
            if not self.store_is_up:
                raise Unreachable("away")

        ready = Ready(self.loop, self.stop.is_set, {"redis": asks_store}, (Unreachable,))
        settings = FleetSettings(liveness_s=LIMIT_S)
        with serve_process(Shown(COMMON), settings, consumer.pulse, ready) as self.port:
            self.up.set()
            await consumer.run(self.stop)

    async def _handle(self, delivery: Delivery) -> TaskResult:
        self.blocked.set()
        assert self.go_on.wait(HANGS_S)  # not awaited: the loop stands still
        lease = delivery.claim.lease
        return TaskResult(trace_id=lease.trace_id, task_id=lease.task_id, attempt=1, status="completed")

    def submit(self) -> None:
        request = TaskRequest(
            task_id=new_task_id(), trace_id=new_trace_id(), sender="test", recipient="explore", agent="explore",
            deadline_ms=600_000, created_at_ms=time.time_ns() // 1_000_000,
        )  # fmt: skip
        asyncio.run_coroutine_threadsafe(self.transport.submit([request]), self.loop).result(HANGS_S)


@pytest.fixture
def served():
    one = Served()
    one.thread.start()
    assert one.up.wait(HANGS_S)
    yield one
    one.go_on.set()
    one.loop.call_soon_threadsafe(one.stop.set)
    one.thread.join(HANGS_S)


def test_a_loop_that_stands_still_is_dead_though_its_port_answers(served: Served):
    assert until(served.port, "/healthz", 200) == "ok\n"  # at an idle queue
    served.submit()
    assert served.blocked.wait(HANGS_S)

    assert until(served.port, "/readyz", 503) == "busy\n"
    assert until(served.port, "/healthz", 503) == "the loop has not come round\n"
    served.go_on.set()
    assert until(served.port, "/healthz", 200) == "ok\n"


def test_who_drains_or_has_no_store_is_not_ready_and_lives(served: Served):
    assert until(served.port, "/readyz", 200) == "ok\n"
    served.store_is_up = False
    assert until(served.port, "/readyz", 503) == "redis\n"
    served.go_on.set()
    draining = "muster_worker_draining 1.0"
    assert draining not in ask(served.port, "/metrics")[1]

    def drain_and_look() -> None:
        served.stop.set()
        served.told = ask(served.port, "/readyz"), ask(served.port, "/healthz")  # the loop has had no turn since
        served.looked.set()

    served.loop.call_soon_threadsafe(drain_and_look)
    assert served.looked.wait(HANGS_S)
    assert served.told == ((503, "draining\n"), (200, "ok\n"))


def test_there_are_three_pages_for_get_and_head_and_nothing_else(served: Served):
    def say(method: str, path: str) -> tuple[int, str, bytes, dict[str, str]]:
        connection = HTTPConnection("127.0.0.1", served.port, timeout=HANGS_S)
        connection.request(method, path)
        answer = connection.getresponse()
        found = answer.status, answer.getheader("Content-Type", ""), answer.read(), dict(answer.getheaders())
        connection.close()
        return found

    assert say("GET", "/metrics?x=1")[0] == 200
    assert (say("HEAD", "/healthz")[0], say("HEAD", "/healthz")[2]) == (200, b"")
    for path in ("/", "/metrics/", "/debug/vars", "/../etc/passwd"):
        assert say("GET", path)[0] == 404
    for method in ("POST", "PUT", "DELETE", "TRACE", "OPTIONS", "PATCH"):
        status, _, body, headers = say(method, "/metrics")
        assert (status, body, "Server" in headers) == (501, b"", False)
    assert say("GET", "/metrics")[1].startswith("text/plain")


def test_a_port_that_is_taken_is_told_with_what_to_do(served: Served):
    settings = FleetSettings(metrics_port=served.port)
    ready = Ready(served.loop, served.stop.is_set, {}, ())

    pages = serve_process(Shown(COMMON), settings, Pulse(), ready)
    with pytest.raises(Misconfigured, match=f"127.0.0.1:{served.port}") as refused:
        pages.__enter__()
    assert "MUSTER_METRICS_PORT" in refused.value.hint


def test_exemplars_are_there_for_whoever_asks_for_openmetrics():
    shown = Shown(COMMON)
    trace_id = "0af7651916cd43dd8448eb211c80319c"
    shown.observe("redis_command_seconds", "claim", value=0.003, trace_id=trace_id)
    shown.observe("redis_command_seconds", "claim", value=0.3, trace_id='"} 1\nmuster_forged 1')

    content_type, page = shown.text("application/openmetrics-text; version=1.0.0")

    assert content_type.startswith("application/openmetrics-text")
    assert page.endswith(b"# EOF\n")
    assert f'le="0.005"}} 1.0 # {{trace_id="{trace_id}"}} 0.003'.encode() in page
    assert b"forged" not in page
    assert trace_id.encode() not in shown.text("text/plain")[1]


@pytest.mark.parametrize(
    ("within_s", "later_s", "beats", "age_s"),
    [
        (math.inf, 100.0, False, 100.0),  # the event loop stands still
        (math.inf, 100.0, True, 0.0),  # all slots are full, and a task takes for long
        (90.0, 80.0, True, 0.0),  # a claim waits at an idle queue
        (90.0, 200.0, True, 110.0),  # it should have come back
        (90.0, 200.0, False, 200.0),
    ],
)
async def test_the_age_of_a_pulse(within_s: float, later_s: float, beats: bool, age_s: float):
    clock = [1000.0]
    pulse = Pulse(lambda: clock[-1])
    pulse.expect(within_s)
    clock.append(1000.0 + later_s)

    beating = asyncio.create_task(pulse.beat()) if beats else None
    await asyncio.sleep(0)

    assert pulse.age_s == age_s
    if beating:
        beating.cancel()


def test_who_sends_slowly_keeps_no_place_from_a_probe(monkeypatch):
    monkeypatch.setattr(server, "REQUEST_TIMEOUT_S", 0.1)  # of the whole request; each receive may take as before
    with server.serve_pages({"/healthz": server.probe(lambda: "")}, 0, "127.0.0.1") as port:
        slow = [socket.create_connection(("127.0.0.1", port)) for _ in range(server.CONNECTIONS_AT_ONCE)]
        for each in slow:
            each.settimeout(LIMIT_S)
            each.sendall(b"GET /healthz")
        ended = [each.recv(1) for each in slow]
        for each in slow:
            each.close()

        assert set(ended) == {b""}
        assert ask_when_free(port) == (200, "ok\n")
