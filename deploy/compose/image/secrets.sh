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

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The certificate of SERVICE and its key in its volume, under an authority of its own (file AUTHORITY) that signs once
# and is thrown away.
certificate() { # SERVICE VOLUME AUTHORITY
    if [ -s "$root/$2/tls.crt" ] && [ -s "$root/$2/tls.key" ] && [ -s "$root/$3" ]; then return; fi
    names="DNS:$1,DNS:localhost,IP:127.0.0.1${DAGGERS_TLS_NAMES:+,$DAGGERS_TLS_NAMES}"
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 825 -subj "/CN=daggers authority" \
        -addext "basicConstraints=critical,CA:TRUE" -addext "keyUsage=critical,keyCertSign" \
        -keyout "$work/ca.key" -out "$work/ca.pem" 2>/dev/null
    openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj "/CN=$1" \
        -keyout "$work/tls.key" -out "$work/tls.csr" 2>/dev/null
    printf 'subjectAltName=%s\nextendedKeyUsage=serverAuth\n' "$names" >"$work/extensions"
    openssl x509 -req -in "$work/tls.csr" -CA "$work/ca.pem" -CAkey "$work/ca.key" -CAcreateserial -days 825 \
        -extfile "$work/extensions" -out "$work/tls.crt" 2>/dev/null
    chmod 0640 "$work/tls.key"
    cp "$work/ca.pem" "$root/$3"
    cp "$work/tls.key" "$root/$2/tls.key"
    cp "$work/tls.crt" "$root/$2/tls.crt"
}

certificate api-gateway gateway client/ca.pem
certificate portal portal portal/ca.pem
# What the portal knows the gateway by: it has no part in the volume with the operator's token.
cp "$root/client/ca.pem" "$root/portal/gateway-ca.pem"

fresh | keep "$root/client/token"
# Who calls may only what a role allows; but a deployment from before there were roles goes on as it is.
[ -s "$root/gateway/tokens" ] || echo enforce | keep "$root/gateway/access"
# The scheduler, too: what drivers may connect to is held where access is.
[ ! -s "$root/gateway/access" ] || cp "$root/gateway/access" "$root/host/access"
# The gateway's list may hold more names than ours: an operator adds lines.
[ -s "$root/gateway/tokens" ] || { printf 'operator:'; cat "$root/client/token"; } | keep "$root/gateway/tokens"
# What the gateway shows the scheduler, when it reads logs and rows of the host of the drivers.
[ -s "$root/host/tokens" ] || { printf 'gateway:'; fresh; } | keep "$root/host/tokens"
# What services and drivers log in with to the platform's Kafka, and by what Spark's processes know each other.
fresh | keep "$root/kafka/password"
printf 'spark.authenticate true\nspark.authenticate.secret %s\n' "$(fresh)" | keep "$root/spark/properties"
fresh | keep "$root/influx/token"
fresh | keep "$root/influx/password"
fresh | keep "$root/grafana/password"
echo "secrets are in place"
