#!/bin/sh
# Muster as it stands beside this script, with dependencies pinned by version and hash, in an environment of its own.
# Whoever pins the commit of this tree has pinned all of it.
set -eu
export PYTHONSAFEPATH=1
here=$(cd "$(dirname "$0")" && pwd)
venv=${MUSTER_VENV:-$here/.venv}
# -I: nothing is imported from the folder that this runs in, which is a stranger's
python3 -I -m venv "$venv"
"$venv/bin/python" -I -m pip install --quiet --disable-pip-version-check --require-hashes -r "$here/../requirements/runtime.lock"
"$venv/bin/python" -I -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable "$here/.."
# the fleet of this machine needs the sandboxes' image; one that is named by MUSTER_REDIS_URL has its own
if [ -z "${MUSTER_REDIS_URL:-}" ]; then "$venv/bin/muster" sandbox build; fi
