"""Builds docs/receivers.md from the settings and docstrings of the kinds; `make receivers-doc` writes it."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from pydantic import SecretStr
from pydantic.fields import FieldInfo

from chassis.settings import variable
from health_monitor import examples, receivers
from health_monitor.settings import MonitorSettings

_HEAD = """# Receivers

Made by `make receivers-doc` from `services/health-monitor/src/health_monitor/receivers/`.

A team names its receivers [in its file](access.md#set-it-up): `KIND: {KEY: VALUE, …}`. A key that is a
secret has the name of a [registered secret](access.md#secrets-and-sinks) of the team, or `{file: PATH}` of
the health monitors' hosts. The platform has the receivers of the team `platform`, and those that variables of
the monitor configure: both are told of the platform, and of teams that have no receivers. A secret is better
given by a file.

A notification is sent when the receiver says so by its own protocol, as it stands below. Any other answer
that is not a refusal of the receiver's own is tried again, until the notification is given up: a page of HTML
with whatever status, an empty or cut off 200, a redirect that does not say that it lasts. So do login pages
of networks, and proxies that block, answer. Redirects are never followed.

## The messages
Each says what is wrong and how gravely, since when, what was measured beside its limit, whose it is, what to
do, the last change of the dagger, where to read on, three further alerts of its group and how many more.
[Pictures of them](messages/README.md) have the list that each is held to, and what was mended.

A silence that is about to end and still holds something back [is announced](operations.md#silence-alerts) to
the receivers of what it holds back, to Alertmanager as an alert that ends with it. PagerDuty is not
notified: all that it is told pages somebody.

Mail has a small chart beside the text: what heartbeats said of the dagger in the half hour before, with the
limit; of rules on rows and of what is no dagger, when the alert was open in the last week. Other receivers
take no picture but by an address that anybody on the internet may fetch
([decision 318](decisions/0318-mail-has-the-chart-that-heartbeats-give.md)).
"""


_CALLBACKS = """## Acknowledge where you are told
Who acknowledges at PagerDuty, or by the button of a message in Slack, looks after the alert as by
[`daggers alerts ack`](operations.md#acknowledge-alerts): as `pagerduty:PLH1HKV (Ada)` or
`slack:U2CERLKJA (ada)`. It is off until these steps are made.

**The monitors.** Give each one an address, `DAGGERS_MONITOR_CALLBACKS_BIND=127.0.0.1:9105`, and put a proxy
with a certificate before them that passes `https://HOST/callbacks/` to any of them, also to one that stands
by. It has no TLS of its own, and refuses what is not signed ([what is promised](security.md)). By Compose
the address is `0.0.0.0:9105` in `settings/health-monitor.env`, and the proxy in the network of the
container.

**Slack.** One app may have the channels of all teams.
1. At https://api.slack.com/apps open the app whose incoming webhook is the receiver. *Interactivity &
   Shortcuts*: switch it on, with the Request URL `https://HOST/callbacks/slack`.
2. *Basic Information*, *App Credentials*: the *Signing Secret* goes into a file of the monitors' hosts.
3. Name it in the team's file, `- slack: {url: pricing-slack, signing_secret: pricing-slack-app}`; a
   registered secret has the addresses that the webhook has. From then on messages have a button
   *Acknowledge* until somebody looks after what they are about.
4. `daggers alerts receiver test pricing/slack`, and click: Slack says to you alone that nothing is open of
   that. An error instead is explained by `callback.refused` or `callback.failed` in the lines of the
   monitor.

**PagerDuty.** One subscription for each receiver.
1. *Integrations*, *Generic Webhooks (v3)*, *New Webhook*: the URL `https://HOST/callbacks/pagerduty/TEAM`
   with the team of the receiver, the scope *Service* with the one that has its routing key, and the events
   `incident.acknowledged` and `incident.unacknowledged`.
2. The secret is shown once. It goes into a file of the monitors' hosts, and is named in the team's file:
   `- pagerduty: {routing_key: pricing-pagerduty, webhook_secret: pricing-pagerduty-webhook}`.
3. *Send Test Event*: it is taken (200, `ignored`).
4. Let that service group no alerts: its events have the key of the first alert of an incident alone, and
   [routes](alert-routes.md) group better.

The platform's receivers call back as those of the team `platform`; receivers by variables have no such
secret.

* An event or a click counts for what that receiver was told of, and what is open still: the incident of the
  message, or all of the group that it was told so far. Of anything else the answer is `not_open`.
* The same again changes nothing, also when something else came between. PagerDuty gets nothing of what it
  said itself; other receivers are told as of every acknowledgement.
* `incident.unacknowledged`, also by PagerDuty's timeout, takes back what was acknowledged at PagerDuty, and
  nothing that somebody said elsewhere. An incident that is resolved at PagerDuty stays open here: it is
  over when its condition is.
* What Daggers, or a rule of PagerDuty's, acknowledges there is nobody's (`ignored`).
* While Kafka is away the answer is 503 within 2.5 s. PagerDuty repeats it for about 20 minutes; Slack shows
  an error at the button, which is clicked again.
* Whoever sees the channel may click, and whoever acknowledges at the service is believed: an
  acknowledgement stops reminders and escalation, and holds nothing back. Each is a record of
  `daggers.alerts` and a line `callback`.
"""


def text() -> str:
    """Build the whole reference, as Markdown."""
    return "\n".join([_HEAD, *(_section(name) for name in receivers.names()), _CALLBACKS])


def _section(name: str) -> str:
    fields = receivers.kind(name).Settings.model_fields.items()
    keys = ["| key of a team's file | is |", "|---|---|", *(_key_row(field, info) for field, info in fields)]
    rows = [_row(name, field, info) for field, info in receivers.list_variables(name).items()]
    tables = [*keys, "", *(["| variable | is |", "|---|---|", *rows, ""] if rows else [])]
    return "\n".join([f"## {name}", receivers.about(name), "", *tables, *_messages(name)])


def _messages(name: str) -> Iterator[str]:
    """Yield what it is sent when a rule of a dagger fires, and when that is over."""
    for turn, message in examples.write_messages(receivers.kind(name)):
        yield f"When a rule {turn}:"
        yield from ("```", message.replace("\r\n", "\n"), "```", "")


def _key_row(field: str, info: FieldInfo) -> str:
    secret = ", a secret" if receivers.is_secret(info) else ""
    about = " ".join((info.description or "").split())
    return f"| `{field}`{'' if info.is_required() else ', optional'}{secret} | {about} |"


def _row(name: str, field: str, info: FieldInfo) -> str:
    variable_name = f"`{variable(MonitorSettings, f'{name}_{field}')}`"
    if info.is_required():
        file = f", or `{variable_name.strip('`')}_FILE`" if info.annotation is SecretStr else ""
        return f"| {variable_name}{file} | {info.description} For example `{(info.examples or ['?'])[0]}` |"
    default = info.default.get_secret_value() if isinstance(info.default, SecretStr) else info.default
    return f"| {variable_name} (`{default}`) | {info.description} |"


if __name__ == "__main__":
    sys.stdout.write(text())
