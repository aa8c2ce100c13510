"""The sink that the demo's daggers write by: `metrics`, with a database and a token of their team's own.

As a deployment by Compose registers it. The token opens nothing but that database.
"""

from __future__ import annotations

from daggers.v1 import access_pb2, gateway_pb2, spec_pb2

from cli.framework.gateway import Gateway
from devstack import influxdb
from devstack.services import secrets_folder
from devstack.state import Influx, Stack

SINK = "metrics"


def register(gateway: Gateway, stack: Stack, team: str) -> Influx | None:
    """Register the sink, with a team's part, and return that part; None where the InfluxDB is the user's own.

    The team and its database are made where they are not there. Again is no harm. Raises: CliError.
    """
    if stack.own_influx is not None:  # whose token may not make a database
        return None
    own = influxdb.own_database(stack, team, secrets_folder(stack) / f"influx-{team}")
    if team not in {listed.name for listed in gateway.teams()}:
        wanted = gateway_pb2.RegisterTeamRequest(team=access_pb2.Team(name=team))
        gateway.call(gateway.access.RegisterTeam, wanted)
    place = spec_pb2.SecretRef(file=own.token_file or "")
    secret = spec_pb2.Secret(name=f"influx-{team}", team=team, place=place, addresses=[own.url])
    gateway.call(gateway.sinks.RegisterSecret, gateway_pb2.RegisterSecretRequest(secret=secret))
    sink = next((one for one in gateway.registered_sinks() if one.name == SINK), None)
    sink = sink or spec_pb2.RegisteredSink(name=SINK)
    shared = stack.influx
    address = spec_pb2.InfluxAddress(url=shared.url, org=shared.org, bucket=shared.bucket)
    sink.sink.influx.address.CopyFrom(address)  # of a stack that was stopped, the port may be another now
    parts = next((one for one in sink.by_team if one.team == team), None) or sink.by_team.add(team=team)
    part = spec_pb2.InfluxAddress(bucket=own.bucket, token=spec_pb2.SecretRef(name=secret.name))
    parts.sink.influx.address.CopyFrom(part)
    gateway.call(gateway.sinks.RegisterSink, gateway_pb2.RegisterSinkRequest(sink=sink))
    return own


def written_by(spec: spec_pb2.DaggerSpec) -> None:
    """Have a dagger write to InfluxDB by the sink, and not by its cluster."""
    for sink in spec.sinks:
        if sink.HasField("influx"):
            sink.registered = SINK
