"""Five packages as they were published, each in a repository of its own, and the batch file beside them.

python examples/real/fetch.py FOLDER && muster batch run FOLDER/batch.toml
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
# Author, committer and dates are fixed, so that the base commits have the same ids on every machine.
IDENTITY = {f"GIT_{who}_{what}": "real@localhost" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
DATES = {f"GIT_{who}_DATE": "2020-01-01T00:00:00Z" for who in ("AUTHOR", "COMMITTER")}
OWN_SETTINGS = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull}


def fetch(folder: Path) -> None:
    """Each archive is pinned by its hash in `packages.txt`."""
    archives = folder / "archives"
    archives.mkdir(parents=True)
    options = ("--quiet", "--disable-pip-version-check", "--require-hashes", "--no-deps", "--no-binary", ":all:",
               "--no-build-isolation", "--dest", str(archives), "-r", str(HERE / "packages.txt"))  # fmt: skip
    subprocess.run([sys.executable, "-m", "pip", "download", *options], check=True)
    names = [_unpacked(archive, folder) for archive in sorted(archives.glob("*.tar.gz"))]
    (folder / "repositories.txt").write_text("\n".join(names))
    shutil.copy2(HERE / "batch.toml", folder)


def _unpacked(archive: Path, folder: Path) -> str:
    with tarfile.open(archive) as files:
        # the archive is pinned by its hash; Python 3.11.2, which is Debian 12's, knows no filter yet
        files.extractall(folder, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
    source = folder / archive.name.removesuffix(".tar.gz")
    environment = {**os.environ, **IDENTITY, **DATES, **OWN_SETTINGS}
    for words in (["init", "--quiet", "--initial-branch", "main"], ["add", "--all"],
                  ["commit", "--quiet", "--message", f"{source.name} as published"]):  # fmt: skip
        subprocess.run(["git", "-C", str(source), *words], check=True, env=environment)
    return source.name


if __name__ == "__main__":
    fetch(Path(sys.argv[1]))
