"""What strangers write into records reaches no terminal as an order, and no command reads it as markup.

Every text field of every kind of record is hostile here, as whoever has a worker's password could write it; then every
command that lists or shows something is run, in one process, at a terminal and at none.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator
from enum import Enum
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

import pytest
import pytest_asyncio
import typer
from pydantic import ValidationError

import orchestrator.cli
from envelope.agents import WorkerCard
from envelope.events import KINDS, AskOpened
from envelope.ids import blob_ref
from envelope.lifecycle import State
from envelope.messages import Attachment, Output, TaskProgress, TaskResult
from envelope.wire import Wire
from orchestrator.batch.report import BatchReport
from orchestrator.cli.commands import COMMANDS as REGISTRY
from orchestrator.cli.report_forms import FORMS
from orchestrator.client import Muster
from orchestrator.evaluation.report import EvalReport
from orchestrator.settings import Settings
from orchestrator.submit import BATCH, DRIVERS, EVAL, FANOUT, RUN, task_request
from transport.audit import Decision
from transport.base import Allotment, Wait
from transport.notices import Notice
from transport.settings import connect

pytestmark = [pytest.mark.redis, pytest.mark.acceptance]

# A title of the window, a bell, a cleared screen in 7 and in 8 bits, a turned line, a colour and an end of rich's
# markup, a line that is told over, and one of its own.
WORDS = "a\x1b]0;PWN\x07\x1b[2J\x9b2J\u202e[red]x[/][/bold]\rb"
EVIL = f"{WORDS}\nPWNED"
# A live picture itself goes back to the beginning of its line, and empties that.
ORDERS = re.compile(r"\x1b\]|\x07|\x1b\[2J|\x9b|\u202e|\x1b\[[0-9;]*mx|\r(?!\n|\x1b\[2K)|^(\x1b\[[0-9;]*m)*PWNED", re.M)
COMMANDS = (
    ("task", "list"),
    ("task", "show", "{task}"),
    ("task", "watch", "{task}"),
    ("task", "logs", "{task}"),
    ("task", "diff", "{task}"),
    ("task", "tree", "{task}"),
    ("task", "cost", "{task}"),
    ("task", "show", "{asks}"),
    ("task", "tree", "{asks}"),
    ("task", "logs", "{asks}"),
    ("task", "show", "{fanout}"),
    ("task", "show", "{eval}"),
    ("session", "list"),
    ("batch", "list"),
    ("batch", "show", "{batch}"),
    ("batch", "status", "{batch}"),
    *(("batch", "report", "{batch}", "--format", form) for form in FORMS),
    ("ask", "list"),
    ("ask", "show", "{ask}"),
    ("dlq", "list"),
    ("dlq", "show", "{dead}"),
    ("budget", "show", "{task}"),
    ("plan", "show", "{task}"),
    ("pool", "list"),
    ("pool", "tenants"),
    ("top", "--once"),
    ("agents", "list", "--all"),
    ("agents", "show", "odd"),
    ("agents", "check"),
    ("commands", "list"),
    ("skills", "list"),
    ("webhook", "list"),
    ("publish", "status"),
    ("audit", "list"),
    ("audit", "verify"),
    ("audit", "export"),
    ("trust", "--list"),
    ("token", "list"),
    ("keys", "list"),
    ("config", "show"),
    ("doctor",),
)
# Some tell by it what they have found, as ever: a result that names an error, files of agents that cannot be used,
# pools without workers.
CODES = {"task watch": 2, "agents check": 2, "doctor": 6}
NO_JSON = {"token", "keys", "config"}
# Ids, references and names that the rules of every field allow, by trial.
HARMLESS = (blob_ref(b"x"), "0" * 32, "0" * 40, "name-1", 1)
# Each command as the entry point runs it, in one process: what they import takes longer than what they do.
ALL_OF_THEM = """
import json, sys
from orchestrator.cli.main import main
streams = sys.stdout, sys.stderr
for words in json.loads(sys.argv[1]):
    sys.stdout, sys.stderr = streams
    try:
        main(words)
    except SystemExit as end:
        print(f"=== {' '.join(words)}: {end.code}", file=streams[0], flush=True)
"""


def hostile(kind: Any) -> Any:
    """A value of an annotated type with `EVIL` as every text that may be any."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Literal:
        return inner[0]
    if origin in (Union, UnionType):
        return hostile(inner[0])
    if kind is str:
        return EVIL
    if isinstance(kind, type) and issubclass(kind, Enum):
        return next(iter(kind))
    if isinstance(kind, type) and issubclass(kind, Wire):
        return hostile_wire(kind)
    if origin is tuple:
        return tuple(hostile(one) for one in inner if one is not ...)
    if origin is dict:
        return {hostile(inner[0]): hostile(inner[1])}
    return hostile(inner[0]) if origin is not None and hasattr(kind, "__metadata__") else 1


def hostile_wire(kind: type[Wire], **known: Any) -> Any:
    """Where a field's rules refuse such a text it is as its default has it, or something that its rules allow."""
    kind.model_rebuild()
    values = {name: hostile(field.annotation) for name, field in kind.model_fields.items()} | known
    for harmless in (*HARMLESS, None):
        try:
            return kind.model_validate(values)
        except ValidationError as refused:
            for name in {str(error["loc"][0]) for error in refused.errors()}:
                values.pop(name, None)
                if kind.model_fields[name].is_required():
                    values[name] = harmless
    raise AssertionError(f"{kind} cannot be made: {values}")


@pytest_asyncio.fixture
async def ids(desk, plain_redis: str, keep_settings) -> AsyncIterator[dict[str, str]]:
    """What a fleet has that strangers have filled; the ids of what can be shown."""
    settings = Settings(redis_url=plain_redis, state_dir=Path(desk.environment["MUSTER_STATE_DIR"]))
    transport: Any = await connect(settings)
    muster = Muster(transport, settings)
    odd = f"---\ndescription: {json.dumps(EVIL)}\n---\nDo it."
    names = ("odd", "\x1b[2J\u202e[b]", "[b]x[bad]")
    desk.repository("project", {f".muster/agents/{name}.md": odd for name in names})
    events = [hostile_wire(kind) for kind in KINDS.values() if kind is not AskOpened]
    found = {}
    for name, agent in {
        "asks": "build",
        "dead": "build",
        "task": RUN,
        BATCH: BATCH,
        FANOUT: FANOUT,
        EVAL: EVAL,
    }.items():
        pool = "build" if agent == "build" else DRIVERS
        said = {"agent": agent, "pool": pool, "auth_scope": (), "deadline_ms": 600_000, "prompt": EVIL}
        found[name] = (await muster.submit(task_request(**said))).task_id
        [claim] = await transport.claim(pool, EVIL, slots=1, wait_s=5)
        lease = claim.lease
        head = {"trace_id": lease.trace_id, "task_id": lease.task_id, "attempt": lease.attempt}
        asked = [hostile_wire(AskOpened, ask_id="ask_000001")] if name == "asks" else []
        told = {**head, "seq": 0, "at_ms": 1, "status": State.RUNNING}
        await transport.emit(lease, TaskProgress(**told, events=(*events, *asked)))
        if name == "asks":
            assert await transport.park(lease, Wait(asks=frozenset({"ask_000001"})))
            continue
        ends = {"status": State.ERROR if name == "dead" else State.COMPLETED}
        fields = {"patch": None, "output": Output(text=WORDS), "attachments": ()}  # an answer may have lines
        if kind := {BATCH: BatchReport, EVAL: EvalReport}.get(name):
            report = hostile_wire(kind).model_dump(mode="json")
            # Markdown has what a gate printed in a block, with its lines.
            blob = await transport.blobs.put(json.dumps(report).replace(r"\nPWNED", "").encode())
            fields |= {"output": Output(structured=report), "attachments": (Attachment(name="report.json", blob=blob),)}
        result = hostile_wire(TaskResult, **head, **ends, **fields)
        await transport.finish(lease, result, dead=EVIL if name == "dead" else "")
    await transport.announce(hostile_wire(WorkerCard), ttl_s=600)
    await transport.allot(EVIL, Allotment(1.0), by=EVIL)
    await transport.audit.note(Decision(EVIL, EVIL, EVIL, EVIL, {EVIL: EVIL}))
    # What no message says, but a record. The others' are looked up by who did them.
    fields = ("agent", "intent", "worker", "pool", "cancelled_by", "cancel", "flow")
    for task_id in (found["asks"], found["dead"], found["task"]):
        words = [word for field in fields for word in (field, EVIL)]
        await transport._cells.first.client.call("HSET", f"{{muster:main:0}}:task:{task_id}", *words)
    for cell in transport.notices:
        await cell.take(await cell.read(wait_s=0.01), [Notice("m1", EVIL, EVIL, json.dumps(EVIL), 1, error=EVIL)])
    yield found
    await transport.close()


def typed(desk, url: str, commands: list[list[str]], *, terminal: bool) -> str:
    """What the commands print; on a terminal with colours."""
    environment = {**desk.environment, "MUSTER_REDIS_URL": url, "COLUMNS": "2000", "TERM": "xterm", "LC_ALL": "C.UTF-8"}
    del environment["NO_COLOR"]
    ours, theirs = os.openpty() if terminal else os.pipe()
    words = [sys.executable, "-c", ALL_OF_THEM, json.dumps(commands)]
    streams: dict[str, Any] = {"stdin": theirs if terminal else subprocess.DEVNULL, "stdout": theirs, "stderr": theirs}
    with subprocess.Popen(words, cwd=desk.home / "project", env=environment, **streams):
        os.close(theirs)
        told = bytearray()
        try:
            while more := os.read(ours, 65536):
                told += more
        except OSError:  # so a terminal ends
            pass
    os.close(ours)
    return told.decode().replace("\r\n", "\n")


@pytest.mark.parametrize("terminal", [True, False])
async def test_no_command_gives_a_terminal_orders_of_strangers(desk, plain_redis, ids, terminal):
    commands = [[word.format(**ids, ask="ask_000001") for word in words] for words in COMMANDS]
    commands += [[*one, "--json"] for one in commands if one[1:2] in (["list"], ["show"]) and one[0] not in NO_JSON]

    told = await asyncio.to_thread(typed, desk, plain_redis, commands, terminal=terminal)

    parts = re.split(r"^=== (.*): (\S+)\n", told, flags=re.MULTILINE)
    texts, typed_, codes = parts[0:-1:3], parts[1::3], parts[2::3]
    assert typed_ == [" ".join(words) for words in commands]
    expected = [CODES.get(" ".join(words[:2]), 0) for words in commands]
    wrong = {
        words: text
        for words, text, code, meant in zip(typed_, texts, codes, expected, strict=True)
        if int(code) != meant
    }
    assert wrong == {}
    assert {words: found[0] for words, text in zip(typed_, texts, strict=True) if (found := ORDERS.search(text))} == {}
    seen = [words for words, text in zip(typed_, texts, strict=True) if "[red]x[/]" in text]
    assert len(seen) > len(commands) // 2, "what should be harmless is not even shown"


def test_a_new_command_that_lists_or_shows_is_tried_here():
    tried = {words[:2] for words in COMMANDS}
    apps = {name: app for name, command in REGISTRY.items() if isinstance(app := command.load(), typer.Typer)}
    there = {(name, str(one.name)) for name, app in apps.items() for one in app.registered_commands}
    # What a session's is made of only a worker writes; its text is printed like `task logs`.
    assert {words for words in there if words[1] in ("list", "show")} - tried == {("session", "show")}


@pytest.mark.parametrize("way", [r"\bConsole\(", "from_markup", "from_ansi", r"rich\.markup", "__std(out|err)__"])
def test_nothing_is_printed_by_another_way(way):
    folder = Path(orchestrator.cli.__file__).parent
    assert {path.name for path in folder.rglob("*.py") if re.search(way, path.read_text())} <= {"console.py"}
