"""`make demo`: the main job of Muster on a real package that we did not write.

Everything here is what a user would type: it fetches a source archive, puts it under git and calls `muster`. All it
leaves is the folder `.demo` (the package with its new branches, and Muster's state), which `make clean` removes.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import signal
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
DEMO = ROOT / ".demo"
BIN = Path(sys.executable).parent

GOAL = (
    "Make `chunked` in more_itertools/more.py refuse a size below 1 with a ValueError that names the size. "
    "First find out who calls it, which tests cover it, and how its neighbours report bad sizes."
)
TESTS = "python -m pytest -q"
SETUP = "pip install six"
# Author, committer and dates are fixed, so that the base commit has the same id on every machine.
IDENTITY = {
    "GIT_AUTHOR_NAME": "demo", "GIT_AUTHOR_EMAIL": "demo@localhost", "GIT_AUTHOR_DATE": "2019-01-05T00:00:00Z",
    "GIT_COMMITTER_NAME": "demo", "GIT_COMMITTER_EMAIL": "demo@localhost", "GIT_COMMITTER_DATE": "2019-01-05T00:00:00Z",
    "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull,
}  # fmt: skip


def main() -> int:
    package = fetch_package(DEMO)
    with model() as model_environment:
        environment = {**os.environ, "MUSTER_STATE_DIR": str(DEMO / "state"), **model_environment}
        # a fleet that an interrupted demo left behind would ask a model server that is gone
        muster("down", environment=environment, quiet=True)
        try:
            heading("a. A refactoring batch without a model: a shard per module, merged, proven by the package's tests")
            if code := muster("batch", "run", str(HERE / "batch.toml"), environment=environment):
                return code
            heading("b. A fan-out with a model: one agent asks three others, edits, and the platform checks its work")
            return muster(
                "run", GOAL, "--repo", str(package), "--setup", SETUP, "--gate", TESTS, environment=environment
            )
        finally:
            muster("down", environment=environment, quiet=True)
            say("to use the commands above here: export MUSTER_STATE_DIR=$PWD/.demo/state PATH=$PWD/.venv/bin:$PATH")


def fetch_package(folder: Path) -> Path:
    """The archive from the package index, checked by its hash, unpacked and committed; once."""
    package = folder / "more-itertools"
    if (package / ".git").is_dir():
        return package
    folder.mkdir(exist_ok=True)
    say("fetching the package (its archive is pinned by hash in examples/demo/package.txt)")
    options = [
        "--quiet",
        "--disable-pip-version-check",
        "--require-hashes",
        "--no-deps",
        "--no-binary",
        "more-itertools",
    ]
    run(sys.executable, "-m", "pip", "download", *options, "--dest", str(folder), "-r", str(HERE / "package.txt"))
    archive = next(folder.glob("more-itertools-*.tar.gz"))
    with tarfile.open(archive) as files:
        # the archive is pinned by its hash; Python 3.11.2, which is Debian 12's, knows no filter yet
        files.extractall(folder / "unpacked", **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
    (source,) = (folder / "unpacked").iterdir()
    for words in (["init", "--quiet", "--initial-branch", "main"], ["add", "--all"],
                  ["commit", "--quiet", "--message", f"{source.name} as published"]):  # fmt: skip
        run("git", "-C", str(source), *words, environment={**os.environ, **IDENTITY})
    source.rename(package)
    return package


@contextlib.contextmanager
def model() -> Iterator[dict[str, str]]:
    """The environment that tells the workers which model answers: the user's, or the scripted one on loopback."""
    if name := os.environ.get("MUSTER_MODEL"):
        say(f"the model {name} answers (MUSTER_MODEL)")
        yield {}
        return
    server = subprocess.Popen(
        [sys.executable, "-m", "workers.llm.scripted_server", "--script", str(HERE / "model.yaml"), "--port", "0"],
        stdout=subprocess.PIPE,
    )
    try:
        assert server.stdout is not None
        url = json.loads(server.stdout.readline())["url"]
        say("a scripted model answers over real HTTP on loopback; set MUSTER_MODEL (and its key) to use a real one")
        yield {
            "MUSTER_MODEL": "openai/scripted",
            "MUSTER_MODEL_BASE_URL": f"{url}/v1",
            "MUSTER_MODEL_API_KEY": "no-key-on-loopback",
            "MUSTER_TITLES": "false",  # the script has no rule for one
            # What the scripted model's tokens would cost, so that the cost column shows the sums of a real run.
            "MUSTER_PRICES": json.dumps({"openai/scripted": {"input": 1_000_000, "output": 5_000_000}}),
        }
    finally:
        server.terminate()
        server.wait()


def muster(*words: str, environment: dict[str, str], quiet: bool = False) -> int:
    if not quiet:
        say(f"$ muster {shlex.join(words)}")
    output = subprocess.DEVNULL if quiet else None
    return subprocess.run([BIN / "muster", *words], env=environment, cwd=ROOT, stdout=output, stderr=output).returncode


def run(*words: str, environment: dict[str, str] | None = None) -> None:
    subprocess.run(words, env=environment, check=True, stdin=subprocess.DEVNULL)


def heading(text: str) -> None:
    print(f"\n── {text}\n", file=sys.stderr, flush=True)


def say(text: str) -> None:
    print(f"demo: {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    # An interrupt reaches `muster` too, which cancels its work and says so; this script only waits for it.
    signal.signal(signal.SIGINT, lambda *_: None)
    try:
        sys.exit(main())
    except subprocess.CalledProcessError as error:
        say(f"error: {shlex.join(map(str, error.cmd[:4]))} … failed with exit code {error.returncode}")
        say("hint: see its message above; the package index must be reachable to fetch the demo's package")
        sys.exit(6)
