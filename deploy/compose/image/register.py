"""Registers what this deployment has, where it is not there yet: register.py TEAMS. Again is no harm.

The cluster `compose`, whose Kafka, Spark and InfluxDB are the deployment's; each team of a folder; and the
sink `metrics`, by which daggers of those teams write to a bucket of their team's own, with a token that opens
nothing else. What was granted to a team meanwhile stays: `daggers team apply FILE` brings it back to what its
file says.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from daggers.v1 import gateway_pb2, spec_pb2
from influxdb_client import InfluxDBClient, Permission, PermissionResource

from daggerclient import Client
from daggerclient.teamfile import parse

CLUSTER = spec_pb2.Cluster(
    name="compose",
    kafka={"bootstrap_servers": "kafka:9095"},
    spark_master="spark://spark-master:7077",
    # One executor of a GiB for each dagger: the worker's memory is reckoned for that.
    executors={"count": 1, "cores": int(os.environ.get("DAGGERS_CORES", "2"))},  # noqa: TID251 - as below
    influx={
        "url": "http://influxdb:8086",
        "org": "daggers",
        "bucket": "daggers",
        "token": {"file": "/run/daggers/influx/token"},
    },
)
SINK = "metrics"


def main(teams: Path) -> None:
    """Register all there is, and say it."""
    with Client(
        os.environ["DAGGERS_GATEWAY"],  # noqa: TID251 - set by the deployment, as for the command
        ca_file=Path(os.environ["DAGGERS_CA_FILE"]),  # noqa: TID251 - the same
        token_file=Path(os.environ["DAGGERS_TOKEN_FILE"]),  # noqa: TID251 - the same
        patience_s=60,
    ) as gateway:
        gateway.register_cluster(CLUSTER)
        names = register_teams(gateway, teams)
        give_buckets(gateway, names)
    sys.stdout.write(f"registered: cluster {CLUSTER.name}, teams {', '.join(names)}, sink {SINK}\n")


def register_teams(gateway: Client, folder: Path) -> list[str]:
    """Register the teams of a folder that are not there yet; the names of all its teams."""
    wanted = [parse(file.read_text(), file.name) for file in sorted(folder.glob("*.yaml"))]
    known = {team.name for team in gateway.teams()}
    for team in wanted:
        if team.name not in known:
            gateway.call(gateway.access.RegisterTeam, gateway_pb2.RegisterTeamRequest(team=team))
    return [team.name for team in wanted]


def give_buckets(gateway: Client, teams: list[str]) -> None:
    """Add those teams to the sink that have no bucket by it yet."""
    address = {"url": CLUSTER.influx.url, "org": CLUSTER.influx.org, "bucket": CLUSTER.influx.bucket}
    before = {sink.name: sink for sink in gateway.registered_sinks()}
    sink = before.get(SINK) or spec_pb2.RegisteredSink(name=SINK, sink={"influx": {"address": address}})
    have = {parts.team for parts in sink.by_team}
    new = [team for team in teams if team not in have]
    for team in new:
        file = Path(CLUSTER.influx.token.file).with_name(f"{team}.token")
        make_bucket(CLUSTER.influx, team, file)
        secret = spec_pb2.Secret(
            name=f"influx-{team}", team=team, place={"file": str(file)}, addresses=[CLUSTER.influx.url]
        )
        gateway.call(gateway.sinks.RegisterSecret, gateway_pb2.RegisterSecretRequest(secret=secret))
        own = {"bucket": team, "token": {"name": secret.name}}
        sink.by_team.add(team=team, sink={"influx": {"address": own}})
    if new or SINK not in before:
        gateway.call(gateway.sinks.RegisterSink, gateway_pb2.RegisterSinkRequest(sink=sink))


def make_bucket(shared_by_all: spec_pb2.InfluxAddress, team: str, file: Path) -> None:
    """Make a team's bucket, which forgets as the shared one does, and a file with a token for it alone."""
    token = Path(shared_by_all.token.file).read_text().strip()
    with InfluxDBClient(shared_by_all.url, token, org=shared_by_all.org) as influx:
        buckets, authorizations = influx.buckets_api(), influx.authorizations_api()
        shared = buckets.find_bucket_by_name(shared_by_all.bucket)
        bucket = buckets.find_bucket_by_name(team) or buckets.create_bucket(
            bucket_name=team, org=shared.org_id, retention_rules=shared.retention_rules
        )
        resource = PermissionResource(type="buckets", id=bucket.id, org_id=shared.org_id)
        made = authorizations.create_authorization(
            shared.org_id, [Permission(action=action, resource=resource) for action in ("read", "write")]
        )
    file.touch(0o640)
    file.write_text(made.token)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
