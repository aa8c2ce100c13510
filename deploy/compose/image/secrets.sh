#!/bin/sh
# Makes what is secret in this deployment, once: secrets.sh [ROOT]. What exists is kept. Every file goes to the
# volume of those who read it; what belongs together is written together, so an interrupted run is simply run again.
set -eu
umask 027
root=${1:-/run/daggers}

fresh() { openssl rand -hex 24; }

keep() { # FILE: takes stdin as its content, unless it exists
    if [ -s "$1" ]; then cat >/dev/null; else cat >"$1.new"; mv "$1.new" "$1"; fi
}

# The gateway's certificate, under an authority of our own that signs once and is thrown away.
if [ ! -s "$root/gateway/tls.crt" ] || [ ! -s "$root/gateway/tls.key" ] || [ ! -s "$root/client/ca.pem" ]; then
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    names="DNS:api-gateway,DNS:localhost,IP:127.0.0.1${DAGGERS_TLS_NAMES:+,$DAGGERS_TLS_NAMES}"
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 825 -subj "/CN=daggers authority" \
        -addext "basicConstraints=critical,CA:TRUE" -addext "keyUsage=critical,keyCertSign" \
        -keyout "$work/ca.key" -out "$work/ca.pem" 2>/dev/null
    openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj "/CN=api-gateway" \
        -keyout "$work/tls.key" -out "$work/tls.csr" 2>/dev/null
    printf 'subjectAltName=%s\nextendedKeyUsage=serverAuth\n' "$names" >"$work/extensions"
    openssl x509 -req -in "$work/tls.csr" -CA "$work/ca.pem" -CAkey "$work/ca.key" -CAcreateserial -days 825 \
        -extfile "$work/extensions" -out "$work/tls.crt" 2>/dev/null
    chmod 0640 "$work/tls.key"
    cp "$work/ca.pem" "$root/client/ca.pem"
    cp "$work/tls.key" "$root/gateway/tls.key"
    cp "$work/tls.crt" "$root/gateway/tls.crt"
fi

fresh | keep "$root/client/token"
# Who calls may only what a role allows; but a deployment from before there were roles goes on as it is.
[ -s "$root/gateway/tokens" ] || echo enforce | keep "$root/gateway/access"
# The gateway's list may hold more names than ours: an operator adds lines.
[ -s "$root/gateway/tokens" ] || { printf 'operator:'; cat "$root/client/token"; } | keep "$root/gateway/tokens"
# What the gateway shows the scheduler, when it reads logs and rows of the host of the drivers.
[ -s "$root/host/tokens" ] || { printf 'gateway:'; fresh; } | keep "$root/host/tokens"
fresh | keep "$root/influx/token"
fresh | keep "$root/influx/password"
fresh | keep "$root/grafana/password"
echo "secrets are in place"
