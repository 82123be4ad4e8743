#!/bin/sh
# As the public engine's image behaves, as far as compose.yaml uses it: without a command an engine with TLS, whose client
# certificates lie in $DOCKER_TLS_CERTDIR/client; else the command.
set -eu
case "${1:-}" in -*) set -- prometheus "$@" ;; esac
[ $# = 0 ] || exec "$@"
certificates=$DOCKER_TLS_CERTDIR
mkdir -p "$certificates/server" "$certificates/client"
openssl req -x509 -newkey rsa:2048 -nodes -days 30 -subj /CN=ca -keyout /tmp/ca.key -out /tmp/ca.pem 2>/dev/null
issue() {
    openssl req -newkey rsa:2048 -nodes -subj "/CN=$1" -keyout "$certificates/$1/key.pem" -out /tmp/request 2>/dev/null
    printf '%s\n' "$2" >/tmp/extensions
    openssl x509 -req -days 30 -in /tmp/request -CA /tmp/ca.pem -CAkey /tmp/ca.key -CAcreateserial \
        -extfile /tmp/extensions -out "$certificates/$1/cert.pem" 2>/dev/null
    cp /tmp/ca.pem "$certificates/$1/ca.pem"
}
issue server "subjectAltName=$DOCKER_TLS_SAN"
issue client extendedKeyUsage=clientAuth
chmod 644 "$certificates/client/key.pem"
# what a privileged container has already, and a nearly privileged one may take
mount -o remount,rw,bind /proc/sys 2>/dev/null || :
exec dockerd --host=unix:///var/run/docker.sock --host=tcp://0.0.0.0:2376 --tlsverify \
    --tlscacert="$certificates/server/ca.pem" --tlscert="$certificates/server/cert.pem" --tlskey="$certificates/server/key.pem"
