"""Remove from this virtual environment what the program in a pyproject.toml does not need when it runs.

    keep.py pyproject.toml [--without NAME]...

The lock file holds every extra of a desk: a build backend, a Redis, and for the orchestrator's image a model library
that only workers use. Walks the requirements that are installed; runs inside the image that is built.
"""

from __future__ import annotations

import argparse
import tomllib
from collections.abc import Iterable
from importlib.metadata import Distribution, distributions
from itertools import chain
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

NOT_SHIPPED = {"build", "embedded", "dev", "bench"}  # extras that nothing in an image uses


def needed(roots: Iterable[str], installed: dict[str, Distribution], without: set[str]) -> set[str]:
    """Names of all distributions that these requirements lead to here, those left out excepted."""
    todo, seen = [Requirement(root) for root in roots], set[tuple[str, str]]()
    while todo:
        requirement = todo.pop()
        name = canonicalize_name(requirement.name)
        if name in without or name not in installed:
            continue
        for extra in ("", *requirement.extras):
            if (name, extra) not in seen:
                seen.add((name, extra))
                asked = map(Requirement, installed[name].requires or ())
                todo += [one for one in asked if one.marker is None or one.marker.evaluate({"extra": extra})]
    return {name for name, _ in seen}


def remove(distribution: Distribution) -> None:
    """Its files, and the folders that are empty then."""
    files = [Path(str(file.locate())) for file in distribution.files or ()]
    for path in files:
        path.unlink(missing_ok=True)
    for folder in sorted({folder for path in files for folder in path.parents}, reverse=True):
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("project", type=Path)
    arguments.add_argument("--without", action="append", default=[])
    given = arguments.parse_args()
    project = tomllib.loads(given.project.read_text())["project"]
    extras = (roots for name, roots in project["optional-dependencies"].items() if name not in NOT_SHIPPED)
    installed = {str(canonicalize_name(one.name)): one for one in distributions()}
    keep = needed(chain(project["dependencies"], *extras), installed, set(given.without))
    for name in sorted(installed.keys() - keep):
        remove(installed[name])
    print(f"kept {len(keep)} of {len(installed)} distributions")


if __name__ == "__main__":
    main()
