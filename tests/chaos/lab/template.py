"""A process that has imported everything and forks the programs of a run: one starts within milliseconds.

python -m lab.template      orders come as JSON lines on standard input, what became of them on standard output
"""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
import traceback
from collections.abc import Callable, Coroutine
from typing import Any

from envelope import logs
from workers import process

from . import submitter, worker
from .fleet import Fleet
from .server import die_with_parent

PROGRAMS: dict[str, Callable[..., Coroutine[Any, Any, None]]] = {"worker": worker.serve, "submitter": submitter.submit}


def main() -> None:
    die_with_parent()
    logs.configure(level="warning", json=True)
    gc.freeze()  # what is imported is never garbage: children need not look at it
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for children here; the kernel buries them
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            _run(**json.loads(line))
        say(started=json.loads(line)["name"], pid=pid)


def _run(program: str, name: str, fleet: dict[str, Any], arguments: dict[str, Any]) -> None:
    """In the child; never returns into the template's loop."""
    die_with_parent()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    code = 1
    try:
        process.run(PROGRAMS[program](Fleet.of(fleet), name, ready=lambda: say(ready=name), **arguments))
        code = 0
    except Exception:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def say(**what: Any) -> None:
    """One write of less than PIPE_BUF bytes: lines of many processes do not mix."""
    os.write(1, json.dumps(what).encode() + b"\n")


if __name__ == "__main__":
    main()
