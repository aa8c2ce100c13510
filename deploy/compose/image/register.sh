#!/bin/sh
# Registers the cluster `compose`, and each team of a folder that is not there yet: register.sh TEAMS. What was
# granted to a team meanwhile stays: `daggers team apply FILE` brings it back to what its file says.
set -eu
daggers cluster register compose --kafka kafka:9095 --spark-master spark://spark-master:7077 \
    --influx-url http://influxdb:8086 --influx-org daggers --influx-bucket daggers \
    --influx-token-file /run/daggers/influx/token
for file in "$1"/*.yaml; do
    [ -e "$file" ] || continue
    team=$(basename "$file" .yaml)
    daggers team get "$team" >/dev/null 2>&1 || daggers team apply "$file"
done
