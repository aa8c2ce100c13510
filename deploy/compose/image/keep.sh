#!/bin/sh
# Keeps the scheduler running inside its container: keep.sh COMMAND…
#
# Drivers are processes of this container and outlive a scheduler that dies; the next one adopts them. So the
# scheduler's death must not end the container. SIGTERM ends both, and bad settings (exit code 2) do too.
set -u
child=
asked=
trap 'asked=1; [ -z "$child" ] || kill -TERM "$child"' TERM INT
while [ -z "$asked" ]; do
    "$@" &
    child=$!
    wait "$child"
    code=$?
    # a signal ends `wait` early
    while kill -0 "$child" 2>/dev/null; do
        wait "$child"
        code=$?
    done
    child=
    if [ -n "$asked" ] || [ "$code" -eq 2 ]; then
        exit "$code"
    fi
    echo "keep.sh: $1 ended with exit code $code; starting it again in 2 s" >&2
    sleep 2
done
