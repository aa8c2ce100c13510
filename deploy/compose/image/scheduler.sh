#!/bin/sh
# The scheduler, kept running: scheduler.sh [SECRETS [LABELS]]. Where access is enforced, drivers are held to the addresses
# that they may connect to, until DAGGERS_EGRESS says otherwise. LABELS are those of the host: "zone=a disk=ssd".
set -eu
root=${1:-/run/daggers}
DAGGERS_SCHEDULER_EGRESS=${DAGGERS_SCHEDULER_EGRESS:-$(cat "$root/host/access" 2>/dev/null || echo observe)}
export DAGGERS_SCHEDULER_EGRESS
labels=${2:-}
set --
for label in $labels; do set -- "$@" --label "$label"; done
exec "$(dirname "$0")/keep.sh" python -m scheduler "$@"
