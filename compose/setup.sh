#!/bin/sh
# Make what compose.yaml needs, once: passwords, Redis's users, keys, a settings file for each role, the sandbox's image as
# a file, and .env. What is there stays as it is. MUSTER_SANDBOX_IMAGE names another image; MUSTER_NO_IMAGE=1 saves none.
set -eu
cd "$(dirname "$0")"
umask 077
mkdir -p secrets
secret() { [ -s "secrets/$1" ] || openssl rand -hex 32 | tr -d '\n' >"secrets/$1"; }
digest() { sha256sum "secrets/$1.password" | cut -c 1-64; }

roles="orchestrator worker reader"
for role in $roles grafana; do secret "$role.password"; done
users=$(sed -e '/^#/d' -e 's/FLEET/main/g' ../helm/muster/files/users.acl)
for role in $roles; do
    users=$(printf '%s' "$users" | sed "s/$(echo "$role" | tr '[:lower:]' '[:upper:]')_SHA256/$(digest "$role")/")
done
# the file follows the release's roles; the passwords stay
chmod u+w secrets/users.acl 2>/dev/null || :
printf '%s\n' "$users" | sed -z -e 's/\n  */ /g' -e 's/\n\n*/\n/g' >secrets/users.acl

[ -s secrets/keyring.json ] ||
    printf '{"current": "k1", "keys": {"k1": "%s"}}\n' "$(openssl rand -hex 32)" >secrets/keyring.json
for role in orchestrator worker; do
    [ -s "secrets/$role.toml" ] ||
        printf 'redis_url = "redis://muster-main-%s:%s@redis:6379/0"\n' "$role" "$(cat "secrets/$role.password")" >"secrets/$role.toml"
done
grep -q '^\[workers\]' secrets/worker.toml ||
    printf '\n[workers]\nmodel_api_key = "%s"  # the provider'"'"'s\n' "${MUSTER_MODEL_API_KEY:-}" >>secrets/worker.toml

image=${MUSTER_SANDBOX_IMAGE:-muster-sandbox:latest}
if [ "${MUSTER_NO_IMAGE:-}" != 1 ] && [ ! -s secrets/sandbox.tar ]; then
    docker image inspect "$image" >/dev/null 2>&1 || {
        echo "error: there is no image $image on this machine" >&2
        echo "hint: run: muster sandbox build" >&2
        exit 6
    }
    docker save --output secrets/sandbox.tar "$image"
fi
# The containers' users are in this group. Root's own group would be more than they need: they get that of our images.
group=$(id -g)
if [ "$group" = 0 ]; then group=10001 && chgrp "$group" secrets/*; fi
chmod 440 secrets/*
[ -f .env ] || : >.env
grep -q '^SECRETS_GID=' .env || echo "SECRETS_GID=$group" >>.env
echo "setup: secrets/ and .env are ready; next: docker compose up --detach" >&2
