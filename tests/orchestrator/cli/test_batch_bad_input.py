"""A batch that cannot be: one sentence, a hint, an exit code, and nothing was submitted."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from envelope.errors import ExitCode

pytestmark = pytest.mark.acceptance
BATCH = 'name = "b"\n[[repositories]]\n{where}\n[shards]\nglob = "{glob}"\n[[steps]]\nrecipe = ["true"]\n{more}'
HERE = 'path = "project"'


class NobodyIn(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_error(401)

    def log_message(self, *_: object) -> None: ...


@pytest.fixture(scope="module")
def shut() -> Iterator[str]:
    """A server that lets nobody in."""
    server = HTTPServer(("127.0.0.1", 0), NobodyIn)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize(
    ("where", "glob", "more", "sentence", "hint"),
    [
        (HERE, "none/*.py", "", "none/*.py", ""),
        (HERE, "many/*", "", "makes 1001 shards, more than 1000", "--yes"),
        (HERE, "*.py", '[merge]\nresolve = "agent"\nagent = "verify"', "'verify' takes commands and no prompt", ""),
        (HERE, "*.py", "[limits]\nbudget_usd = inf", "limits.budget_usd", ""),
        ('bundle = "sha256:{zeros}"\nname = "x"\nbase = "{commit}"', "*", "", "x is a bundle of a fleet's", "`path`"),
        ('path = "gone"', "*.py", "", "there is no folder", "what is gone for good comes off it"),
        ('url = "{shut}/gone.git"', "*.py", "", "gone.git does not let us in", "check that token"),
    ],
    ids=["empty", "too many", "verify", "money", "bundle", "vanished", "refused"],
)
def test_it_is_told_and_nothing_is_submitted(desk, shut, where, glob, more, sentence, hint):
    many = {f"many/{number}.py": "" for number in range(1001)} if "many" in glob else {}
    desk.repository("project", {"a.py": "x = 1\n", **many})
    place = where.format(zeros="0" * 64, commit="a" * 40, shut=shut)
    (desk.home / "batch.toml").write_text(BATCH.format(where=place, glob=glob, more=more))
    forge = {"kind": "git", "url": shut, "token_env": "SHUT_TOKEN"}
    known = {"MUSTER_FORGES": json.dumps({"shut": forge}), "SHUT_TOKEN": "canary-0123456789"}
    done = desk.muster("batch", "run", "batch.toml", "--no-input", env=known)

    first, *others = done.stderr.splitlines()
    assert (done.exit_code, done.stdout) == (ExitCode.USAGE, ""), done.stderr
    assert first.startswith("error: ") and sentence in first, done.stderr
    assert others[-1].startswith("hint: ") and hint in others[-1]
    assert "canary" not in done.stderr and "Traceback" not in done.stderr
    assert not (desk.home / "state" / "batches").exists(), "no batch was handed over"
