#!/bin/sh
# The gateway: gateway.sh [SECRETS]. A deployment whose secrets were made with the file `access` goes by it; one
# from before observes, until its administrator says DAGGERS_ACCESS.
set -eu
root=${1:-/run/daggers}
DAGGERS_GATEWAY_ACCESS=${DAGGERS_GATEWAY_ACCESS:-$(cat "$root/gateway/access" 2>/dev/null || echo observe)}
export DAGGERS_GATEWAY_ACCESS
exec python -m api_gateway
