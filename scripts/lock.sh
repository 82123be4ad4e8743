#!/bin/sh
# Write requirements/*.lock anew from pyproject.toml: every version exact, every file hashed, no index named.
# Needs `uv` on PATH. One run for each file, the development one on top of the runtime one, so that both agree.
set -eu
cd "$(dirname "$0")/.."
compile() { uv pip compile pyproject.toml --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
    --no-emit-find-links --no-header --no-annotate --quiet "$@"; }
compile --extra embedded --extra s3 --extra mcp --extra otel --extra acp --extra oidc --extra build -o requirements/runtime.lock
compile --extra embedded --extra s3 --extra mcp --extra otel --extra acp --extra oidc --extra build --extra dev -c requirements/runtime.lock -o requirements/dev.lock
compile --extra embedded --extra s3 --extra mcp --extra otel --extra acp --extra oidc --extra build --extra dev --extra bench -c requirements/dev.lock -o requirements/bench.lock
