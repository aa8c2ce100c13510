"""A gateway that takes no more of a caller just now: asked again when it says so."""

import hashlib
from pathlib import Path

import grpc
import pytest
from daggers.v1 import access_pb2, gateway_pb2
from tests.gateways import served

from access.limits import CallLimits
from chassis.endpoint import Endpoint
from daggerclient import Client, RefusedError

ROOT = "a-token-of-the-first-hour"
WHO = gateway_pb2.WhoAmIRequest()


def test_a_call_that_was_too_much_is_made_when_the_gateway_says(tmp_path: Path) -> None:
    endpoint = Endpoint("127.0.0.1:0", tokens=lambda: {hashlib.sha256(ROOT.encode()).digest(): "root"})
    first, bot = tmp_path / "root", tmp_path / "bot"
    first.write_text(ROOT)
    said: list[str] = []
    with served(endpoint, f"sqlite:///{tmp_path / 'g.db'}", limits=CallLimits(requests_per_second=1)) as port:
        address = f"127.0.0.1:{port}"
        with Client(address, token_file=first) as root:
            team = gateway_pb2.RegisterTeamRequest(team=access_pb2.Team(name="pricing"))
            root.call(root.access.RegisterTeam, team)
            account = gateway_pb2.CreateServiceAccountRequest(
                name="bot", team="pricing", role=access_pb2.ROLE_VIEWER
            )
            bot.write_text(root.call(root.access.CreateServiceAccount, account).token)
        with Client(address, token_file=bot, patience_s=0) as hasty, pytest.raises(RefusedError) as refused:
            _asks_without_end(hasty)
        with Client(address, token_file=bot, warn=said.append) as patient:
            answer = patient.call(patient.access.WhoAmI, WHO)
            steps = patient.watch(gateway_pb2.WatchEventsRequest())
            next(steps)

    assert (refused.value.code, refused.value.reason) == (
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        "TOO_MUCH_ASKED",
    )
    assert answer.principal == "account:bot"
    assert set(said) <= {
        "the gateway takes no more of this caller just now (requests_per_second): asking again"
    }


def _asks_without_end(client: Client) -> None:
    for _ in range(1_000):
        client.call(client.access.WhoAmI, WHO)
