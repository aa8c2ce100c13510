"""Each row is an event of a user in CleverTap, or properties of a profile.

`event` is its name, `identity` the column that says whose it is, its time that of the row; every other column
is a property, under its name without `tag_` or `label_`. A NULL is left out. A row without an identity, or
with a value of more than 512 bytes, is quarantined, and so is what CleverTap does not process. It makes a
profile for an identity that it does not know.

Nothing tells CleverTap that an event came again. So that few do, requests are small, and at most 10 of each
worker are under way, of the 15 that an account may have.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from daggers.v1 import spec_pb2

from daggerspec import events, fields
from daggerspec.capabilities import Capabilities, Guarantee
from daggerspec.destination import Destination, from_template, server_at
from daggerspec.keys import Key
from daggerspec.kind import ValidationContext, no_messages, own_address
from daggerspec.violation import Violation

CAPABILITIES: Final = Capabilities(
    guarantee=Guarantee.AT_LEAST_ONCE,
    because="nothing tells CleverTap that an event came again",
    upserts=False,
    repeats_tellable=False,
    max_rows=100,
    limits=("rows_per_second", "requests_per_second", "max_in_flight"),
)
TIME_SERIES: Final = False
MOST_IN_FLIGHT: Final = 10
MOST_PROPERTIES: Final = 256
LONGEST_VALUE: Final = 512
KEYS: Final = (
    Key("account", "Account id.", required=True, address=True),
    Key("region", "Region of the account, for example in1.", required=True, address=True),
    Key("passcode", "Where its passcode is.", required=True, address=True, sent_to=("url",)),
    Key("event", "Name of the event, with ${column} in it; not for profiles."),
    events.IDENTITY,
    Key("profile", "Whether rows are properties of profiles, and no events."),
    Key("url", "Base URL; without it that of the region.", address=True),
)
resolve = own_address
messages = no_messages
_REGION: Final = re.compile(r"[a-z0-9]{2,10}")
_ACCOUNT: Final = re.compile(r"[A-Za-z0-9-]{1,64}")


def fill(sink: spec_pb2.CleverTapSink, dagger: str, spec: spec_pb2.DaggerSpec) -> None:
    """Say its defaults."""
    del dagger, spec
    sink.url = sink.url or (f"https://{sink.region}.api.clevertap.com" if sink.region else "")


def destination(resolved: spec_pb2.ResolvedSink) -> Destination:
    """Return its event, or the profiles of its account."""
    sink = resolved.sink.clevertap
    return from_template("clevertap", server_at(sink.url), sink.account, "" if sink.profile else sink.event)


def violations(path: str, sink: spec_pb2.CleverTapSink, context: ValidationContext) -> Iterator[Violation]:
    """Yield the violations of account, event, identity and credentials."""
    if not _ACCOUNT.fullmatch(sink.account):
        yield Violation(f"{path}.account", "must be the id of an account", "INVALID_NAME")
    if not _REGION.fullmatch(sink.region):
        yield Violation(f"{path}.region", "must be a region such as in1", "INVALID_NAME")
    yield from fields.url(f"{path}.url", sink.url)
    yield from events.secret(f"{path}.passcode", sink.HasField("passcode"), sink.passcode)
    if bool(sink.event) == sink.profile:
        problem = "is for events, and not for profiles" if sink.event else "is required, or profile: true"
        yield Violation(f"{path}.event", problem, "UNEXPECTED" if sink.event else "REQUIRED")
    yield from events.violations(path, sink.event, sink.identity, context.output, MOST_PROPERTIES)
