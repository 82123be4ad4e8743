"""What docs/install.md tells of signing and verifying is run, word for word."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
pytestmark = pytest.mark.docker


@pytest.fixture
def keys() -> Iterator[dict[str, str]]:
    """The environment of a signer with a key of their own. GnuPG's sockets must have short paths."""
    if shutil.which("gpg-agent") is None:
        pytest.skip("needs gpg and gpg-agent")
    with tempfile.TemporaryDirectory(prefix="gpg", dir="/tmp") as home:
        environment = {**os.environ, "GNUPGHOME": home, "KEY": "builder@example.org"}
        options = (
            "--batch",
            "--passphrase",
            "",
            "--quick-generate-key",
            "builder@example.org",
            "ed25519",
            "sign",
            "1d",
        )
        subprocess.run(["gpg", "--quiet", *options], env=environment, check=True, capture_output=True)
        yield environment
        subprocess.run(["gpgconf", "--kill", "gpg-agent"], env=environment, check=True)


def blocks() -> list[str]:
    page = (ROOT / "docs" / "install.md").read_text()
    return re.findall(r"```sh\n(.*?)```", page.partition("### Signatures")[2].partition("\n## ")[0], re.DOTALL)


def test_what_was_signed_is_verified_and_what_was_changed_is_refused(keys: dict[str, str]):
    sign, verify = blocks()
    subprocess.run([sys.executable, ROOT / "scripts" / "images.py"], check=True, capture_output=True, cwd=ROOT)
    release = ROOT / "build" / "release"
    shutil.rmtree(release, ignore_errors=True)
    signed = sign.replace("make images\n", "").replace(".venv/bin/python", sys.executable)
    subprocess.run(["bash", "-euc", signed], cwd=ROOT, env=keys, check=True)

    def verified() -> int:
        return subprocess.run(["sh", "-c", verify], cwd=release, env=keys, capture_output=True).returncode

    assert {path.suffix for path in release.iterdir()} == {".whl", ".json", ".txt", "", ".asc"}
    assert verified() == 0
    images = release / "images.txt"
    sums, listed = (release / "SHA256SUMS").read_bytes(), images.read_bytes()
    images.write_bytes(listed.replace(b"sha256:", b"sha256:0", 1))
    assert verified() != 0
    images.write_bytes(listed)
    (release / "SHA256SUMS").write_bytes(sums + sums.splitlines(keepends=True)[0])
    assert verified() != 0
    (release / "SHA256SUMS").write_bytes(sums)
    assert verified() == 0
