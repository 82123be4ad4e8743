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
for made in users.acl exporter.json; do chmod u+w secrets/$made 2>/dev/null || :; done
printf '%s\n' "$users" | sed -z -e 's/\n  */ /g' -e 's/\n\n*/\n/g' >secrets/users.acl

# What people's answers are signed with, and what workers verify them with (Ed25519: a key's last 32 bytes are all of it).
# With the keyring it is there from the fleet's beginning; otherwise from now on.
hex_end() { tail -c 32 | od -An -v -tx1 | tr -d ' \n'; }
if [ ! -s secrets/approval-keys.pub.json ]; then
    since_ms=0
    [ ! -s secrets/keyring.json ] || since_ms=$(date +%s000)
    openssl genpkey -algorithm ed25519 -outform DER -out secrets/approval.der
    printf '{"current": "a1", "keys": {"a1": "%s"}}\n' "$(hex_end <secrets/approval.der)" >secrets/approval-keys.json
    printf '{"since_ms": %s, "keys": {"a1": "%s"}}\n' "$since_ms" \
        "$(openssl pkey -inform DER -in secrets/approval.der -pubout -outform DER | hex_end)" >secrets/approval-keys.pub.json
    rm secrets/approval.der
fi
[ -s secrets/keyring.json ] ||
    printf '{"current": "k1", "keys": {"k1": "%s"}}\n' "$(openssl rand -hex 32)" >secrets/keyring.json
for role in orchestrator worker; do
    [ -s "secrets/$role.toml" ] ||
        printf 'redis_url = "redis://muster-main-%s:%s@redis:6379/0"\n' "$role" "$(cat "secrets/$role.password")" >"secrets/$role.toml"
done
grep -q '^\[workers\]' secrets/worker.toml ||
    printf '\n[workers]\nmodel_api_key = "%s"  # the provider'"'"'s\n' "${MUSTER_MODEL_API_KEY:-}" >>secrets/worker.toml

printf '{"redis://redis:6379": "%s", "redis://muster-main-reader@redis:6379": "%s"}\n' \
    "$(cat secrets/reader.password)" "$(cat secrets/reader.password)" >secrets/exporter.json

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
