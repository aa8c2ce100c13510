"""`daggers alerts receiver`: whether receivers of a team take messages."""

from typing import Annotated

import typer
from daggers.v1 import alerts_pb2, gateway_pb2

from cli.framework.group import group
from cli.framework.session import Session, command
from cli.output.json_views.answers import to_json
from cli.output.printer import Printer
from cli.output.visible import printable
from daggerclient.times import duration

receiver = group("Test the receivers of alerts.")
TEST_S = 40.0
"""Longest time of a test, in seconds."""
_REFUSED = 1


@command(receiver, "test", example="daggers alerts receiver test pricing/slack")
def test(
    session: Session,
    name: Annotated[
        str,
        typer.Argument(
            metavar="TEAM[/KIND]",
            help="Team whose receivers are tested, or one of them as alerts name it; `platform`: those of"
            " the platform.",
        ),
    ],
) -> None:
    """Send a test to receivers of a team, and show what each answered. Exit 1 where one did not take it.

    Needs the right to edit in the team. Each is sent a message that says that it is a test and, once it has
    taken that, another that it is over.
    """
    team, _, kind = name.partition("/")
    request = gateway_pb2.TestReceiversRequest(team=team, kind=kind)
    with session.connect({"team": "TEAM", "kind": "KIND"}) as gateway:
        answer = gateway.call(gateway.alerts.TestReceivers, request, deadline_s=TEST_S)
    session.out.show(to_json(answer), lambda out: _show(out, answer))
    if not answer.results or not all(result.delivered for result in answer.results):
        raise typer.Exit(_REFUSED)


def _show(out: Printer, answer: gateway_pb2.TestReceiversResponse) -> None:
    rows = [(result.receiver, _describe(result), duration(result.duration)) for result in answer.results]
    out.table(("RECEIVER", "RESULT", "TOOK"), rows, empty="there is no such receiver: nobody was sent a test")


def _describe(result: alerts_pb2.ReceiverTestResult) -> str:
    return "delivered" if result.delivered else f"not delivered: {result.reason}: {printable(result.detail)}"
