"""Log lines as processes write them: one for each event, with the task that it is about, and nothing that is secret."""

from __future__ import annotations

import asyncio
import json
import logging
import subprocess
import sys
import threading

import pytest

from envelope.log_lines import MAX_KINDS, MAX_REPEATS, WINDOW_S, Repeats
from envelope.logs import bind, configure, get_logger
from envelope.redaction import register_secret

log = get_logger("test")


@pytest.fixture
def lines(capfd):
    """`lines()`: what was logged since, as JSON."""
    configure(level="info", json=True)
    yield lambda: [json.loads(line) for line in capfd.readouterr().err.splitlines()]
    configure(level="warning")


def test_what_libraries_say_is_a_line_of_ours_with_its_task_and_without_secrets(lines):
    register_secret("hunter2-hunter2")
    library = logging.getLogger("some.library")

    async def work() -> None:
        bind(task_id="t1", trace_id="a" * 32)
        library.warning("cannot log in with %s", "hunter2-hunter2")
        await asyncio.to_thread(library.error, "in a thread")
        library.info("for those who write it")

    asyncio.run(work())
    library.warning("elsewhere")
    first, second, last = lines()

    assert (first["part"], first["level"], first["event"]) == (
        "some.library", "warning", "cannot log in with [redacted]",
    )  # fmt: skip
    assert {line["task_id"] for line in (first, second)} == {"t1"}
    assert second["event"] == "in a thread" and second["trace_id"] == "a" * 32
    assert "task_id" not in last


def test_an_exception_is_a_field_for_programs(lines):
    try:
        raise ValueError("it broke")
    except ValueError as e:
        log.error("failed", exc_info=e)
    [line] = lines()
    assert "Traceback" in line["exception"] and "ValueError: it broke" in line["exception"]


@pytest.mark.parametrize(("level", "shown"), [("info", False), ("debug", True)])
def test_an_exception_is_one_line_for_people_unless_they_look_for_it(capfd, level, shown):
    configure(level=level, json=False)
    try:
        raise ValueError("it broke\nin two")
    except ValueError as e:
        log.error("failed", exc_info=e)
    told = capfd.readouterr().err
    configure(level="warning")
    assert ("Traceback" in told) is shown
    if not shown:
        assert "ValueError: it broke\\nin two" in told.replace("\\\\", "\\")
        assert told.count("\n") == 1


def test_what_others_say_cannot_look_like_another_line(capfd):
    configure(level="info", json=False)
    log.info("evil\n2026-01-01 [error] forged \x1b[2J", path="a\r\nb", name="x\u2028y")
    told = capfd.readouterr().err
    configure(level="warning")
    assert told.count("\n") == 1
    assert not {"\r", "\x1b", "\u2028"} & set(told)


def test_repeats_are_left_out_and_counted():
    now_s = [0.0]
    repeats = Repeats(lambda: now_s[0])

    def said(event: str = "claim_failed", **fields: object) -> list[dict[str, object]]:
        line = {"level": "warning", "part": "consumer", "event": event, **fields}
        return [line] if repeats(line) else []

    assert sum(len(said()) for _ in range(1_000)) == MAX_REPEATS
    assert said("another") and said(task_id="another task") and said(level="info")
    now_s[0] = WINDOW_S
    [line] = said()
    assert line["left_out"] == 1_000 - MAX_REPEATS
    [following] = said()
    assert "left_out" not in following


def test_many_kinds_of_repeats_fill_no_memory():
    repeats = Repeats(lambda: 0.0)
    for number in range(3 * MAX_KINDS):
        assert repeats({"level": "error", "event": f"e{number}"})
    assert len(repeats._seen) == MAX_KINDS


PROGRAM = """
import sys, threading
from envelope.logs import configure_service
configure_service(level="info", style=sys.argv[1])
def fail():
    raise RuntimeError("in a thread")
thread = threading.Thread(target=fail)
thread.start()
thread.join()
raise RuntimeError("the key is sk-canary5f1e7c2b9d3a4860")
"""


@pytest.mark.parametrize("style", ["json", "text"])
def test_what_nobody_caught_is_one_line(style):
    done = subprocess.run([sys.executable, "-c", PROGRAM, style], capture_output=True, text=True, timeout=60)
    in_thread, at_last = done.stderr.splitlines()
    assert done.returncode == 1
    assert "in a thread" in in_thread
    assert "uncaught" in at_last and "RuntimeError: the key is [redacted]" in at_last


def test_threads_that_log_at_once_write_whole_lines(lines):
    def say() -> None:
        for number in range(50):
            log.info("said", number=number)

    threads = [threading.Thread(target=say) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(lines()) == 200
