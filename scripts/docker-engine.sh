#!/bin/sh
# Make sure that a Docker engine answers: use the one that does, else (as root, on Debian) install and start one.
# MUSTER_NO_INSTALL=1 forbids installing and starting. Ends with 0 when an engine answers, else with 6.
set -eu
say() { echo "docker-engine: $*" >&2; }
fail() { echo "error: $1" >&2; echo "hint: $2" >&2; exit 6; }
answers() { docker version --format '{{.Server.Version}}' >/dev/null 2>&1; }

if command -v docker >/dev/null && answers; then
    say "using the engine that answers (version $(docker version --format '{{.Server.Version}}'))"
    # mmdebstrap makes the sandbox image's base where no image registry can be reached
    command -v mmdebstrap >/dev/null && exit 0
fi
WANT="install Docker (Debian: apt-get install docker.io mmdebstrap) and start it, then run this again"
[ "${MUSTER_NO_INSTALL:-}" = 1 ] && { answers && exit 0; fail "no Docker engine answers, and MUSTER_NO_INSTALL=1 forbids to install one" "$WANT"; }
[ "$(id -u)" = 0 ] || { answers && exit 0; fail "no Docker engine answers, and this user may not install one" "$WANT"; }
command -v apt-get >/dev/null || { answers && exit 0; fail "no Docker engine answers, and this is no Debian" "$WANT"; }

missing=
command -v dockerd >/dev/null || answers || missing="docker.io"
command -v mmdebstrap >/dev/null || missing="$missing mmdebstrap"
if [ -n "$missing" ]; then
    say "installing Debian's packages: $missing"
    apt-get update -q >/dev/null
    # policy-rc.d keeps a half-configured machine from starting services on its own; we start the engine below
    # shellcheck disable=SC2086
    DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends $missing >/dev/null
fi
answers && exit 0

LOG=${MUSTER_DOCKERD_LOG:-/var/log/muster-dockerd.log}
if [ -d /run/systemd/system ] && systemctl start docker 2>/dev/null; then
    say "started the engine with systemd"
else
    say "starting dockerd (log: $LOG)"
    nohup dockerd >"$LOG" 2>&1 </dev/null &
fi
for _ in $(seq 120); do
    answers && { say "the engine answers (version $(docker version --format '{{.Server.Version}}'))"; exit 0; }
    # An engine that comes back after a crash clears away its old containers; that this wait is hit by it is no failure.
    sleep 0.5 || true
done
fail "the Docker engine was started but does not answer" "see its log: $LOG"
