#!/bin/sh
# Has everything in this container trust the authorities of a folder, too: trust.sh COMMAND…
#
# The variables are those of OpenSSL and httpx, and of the client of S3. Each is all that is trusted, so the file has
# the system's authorities, and yours behind them. It is made at each start, in the container's own /tmp.
set -eu
own=${DAGGERS_AUTHORITIES:-/etc/daggers/authorities}
trusted=${TMPDIR:-/tmp}/authorities.pem
if ls "$own"/*.pem >/dev/null 2>&1; then
    cat "${SSL_CERT_FILE:-/etc/ssl/certs/ca-certificates.crt}" >"$trusted.new"
    for file in "$own"/*.pem; do
        echo
        cat "$file"
    done >>"$trusted.new"
    mv "$trusted.new" "$trusted"
    export SSL_CERT_FILE="$trusted" AWS_CA_BUNDLE="$trusted"
fi
exec "$@"
