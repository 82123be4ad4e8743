"""A terminal with a person at it: tmux draws, and everything that changes is looked at when it does."""

from __future__ import annotations

import os
import re
import select
import shlex
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

WIDTH, HEIGHT = 120, 40
PATIENCE_S = 120.0


class Screen:
    def __init__(self, tmux: str, folder: Path) -> None:
        self._tmux = (tmux, "-S", str(folder / "tmux"), "-f", "/dev/null")
        self._changes = folder / "changes"
        os.mkfifo(self._changes)
        self._reader = os.open(self._changes, os.O_RDONLY | os.O_NONBLOCK)

    def start(self, *words: str, environment: dict[str, str], folder: Path) -> None:
        size = ("-x", str(WIDTH), "-y", str(HEIGHT))
        command = ("new-session", "-d", *size, "-c", str(folder), shlex.join(words))
        subprocess.run([*self._tmux, *command], check=True, env={**environment, "TERM": "xterm", "LC_ALL": "C.UTF-8"})
        self._do("pipe-pane", f"exec cat > {shlex.quote(str(self._changes))}")

    def close(self) -> None:
        subprocess.run([*self._tmux, "kill-server"], capture_output=True)
        os.close(self._reader)

    def types(self, line: str) -> None:
        self._do("send-keys", "-l", line)
        self._do("send-keys", "Enter")

    def presses(self, key: str) -> None:
        self._do("send-keys", key)

    def shows(self, *patterns: str) -> str:
        """Wait until all of them are on the screen at once; the screen as it is then."""
        ends_s = time.monotonic() + PATIENCE_S
        while True:
            screen = self._do("capture-pane", "-p")
            if all(re.search(pattern, screen) for pattern in patterns):
                return screen
            left_s = ends_s - time.monotonic()
            assert left_s > 0, f"{patterns} are not on the screen:\n{screen}"
            if select.select([self._reader], [], [], left_s)[0]:
                os.read(self._reader, 65536)

    def _do(self, *words: str) -> str:
        return subprocess.run([*self._tmux, *words], check=True, capture_output=True, text=True).stdout


@contextmanager
def screen(tmux: str, folder: Path) -> Iterator[Screen]:
    opened = Screen(tmux, folder)
    try:
        yield opened
    finally:
        opened.close()
