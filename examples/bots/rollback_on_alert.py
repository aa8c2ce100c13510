"""A bot on alerts: rolls a dagger back when a rule on its rows fires soon after an edit.

    .venv/bin/python examples/bots/rollback_on_alert.py 127.0.0.1:50051 administrator.token busy 30

The words are the gateway, the file with the token that it asks for, the rule, and how many minutes behind an
edit a firing is put down to it.

It keeps no state. A rollback is planned first, and left to a person where it would lose rows. Its request
names the incident that led to it, and the version that was planned for: sent again it is the same request,
and it is refused (ABORTED) when somebody was faster. What the bot has brought back it never rolls back.
"""

import sys
import time
from datetime import timedelta
from pathlib import Path

from daggers.v1 import gateway_pb2

from daggerclient import Client, ClientError

MESSAGE = "rollback: "
PAUSE_S = 1.0


def main(gateway: str, token_file: str, rule: str, minutes: str) -> None:
    """Follow the alerts for ever: first those that are open, then what comes."""
    within, request = timedelta(minutes=float(minutes)), gateway_pb2.WatchAlertsRequest()
    with Client(gateway, token_file=Path(token_file)) as client:
        while True:
            try:
                for step in client.stream(client.alerts.WatchAlerts, request, deadline_s=None):
                    alert = step.alert
                    if alert.rule == rule and not alert.HasField("until"):
                        say(alert, react(client, alert, within))
                    request.since_sequence = step.sequence  # from here on at any gateway
            except ClientError as error:
                say(None, error.message)
            time.sleep(PAUSE_S)  # a gateway that drains ends its streams


def react(client: Client, alert: gateway_pb2.Alert, within: timedelta) -> str:
    """Roll a dagger back if its newest edit is the likely cause of an alert; return what came of it."""
    revisions = [revision for _, revision in zip(range(2), client.revisions(alert.dagger), strict=False)]
    if len(revisions) < 2:
        return "there is no version to go back to"
    newest, before = revisions
    if newest.message.startswith(MESSAGE):
        return "it was rolled back before"
    fired_after = alert.fire_time.ToDatetime() - newest.time.ToDatetime()
    if not timedelta() <= fired_after <= within:
        return "its last edit is not the cause"
    plan = client.plan(alert.dagger, before.spec)
    if plan.losses:
        return f"left to a person, a rollback loses: {'; '.join(plan.losses)}"
    request = gateway_pb2.ApplyDaggerRequest(
        name=alert.dagger,
        spec=before.spec,
        expected_version=plan.version,
        message=f"{MESSAGE}{alert.rule} fired: {alert.summary}",
        request_id=f"rollback-{alert.dagger}-{newest.version}-{alert.incident}",
    )
    client.call(client.daggers.ApplyDagger, request)
    return f"rolled back to version {before.version}"


def say(alert: gateway_pb2.Alert | None, text: str) -> None:
    """Print a line."""
    print(f"{alert.dagger}: {alert.rule} fires, {text}" if alert else text, flush=True)  # noqa: T201


if __name__ == "__main__":
    main(*sys.argv[1:])
