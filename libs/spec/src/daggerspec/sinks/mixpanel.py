"""Each row is an event of a user in Mixpanel.

`event` is its name, `identity` the column that says whose it is, its time that of the row; every other column
is a property, under its name without `tag_` or `label_`. A NULL is left out. A row without an identity is set
aside, and so are the records of a request that Mixpanel does not import; it imports the others.

An event has an `$insert_id`, which repeats with the row: reports show it once. A raw export may show repeats.
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
    guarantee=Guarantee.EFFECTIVELY_ONCE,
    because="reports know an event by its $insert_id, name, user and time",
    upserts=False,
    repeats_tellable=True,
    max_rows=2_000,
    max_bytes=2 * 1024 * 1024,
    limits=("rows_per_second", "requests_per_second", "max_in_flight"),
)
TIME_SERIES: Final = False
MOST_PROPERTIES: Final = 250
"""Below 255, and our own are among them."""
REGIONS: Final = {
    "us": "https://api.mixpanel.com",
    "eu": "https://api-eu.mixpanel.com",
    "in": "https://api-in.mixpanel.com",
}
DEFAULT_REGION: Final = "us"
KEYS: Final = (
    Key("project", "Project id.", required=True, address=True),
    Key("user", "A service account's user.", required=True, address=True),
    Key("secret", "Where its secret is.", required=True, address=True, sent_to=("url",)),
    Key("region", f"{', '.join(REGIONS)}; without it {DEFAULT_REGION}.", address=True),
    Key("event", "Name of the event, with ${column} in it.", required=True),
    events.IDENTITY,
    Key("url", "Base URL; without it that of the region.", address=True),
)
resolve = own_address
messages = no_messages
_PROJECT: Final = re.compile(r"[0-9]{1,20}")


def fill(sink: spec_pb2.MixpanelSink, dagger: str, spec: spec_pb2.DaggerSpec) -> None:
    """Say its defaults."""
    del dagger, spec
    sink.region = sink.region or DEFAULT_REGION
    sink.url = sink.url or REGIONS.get(sink.region, "")


def destination(resolved: spec_pb2.ResolvedSink) -> Destination:
    """Return its event, in a project."""
    sink = resolved.sink.mixpanel
    return from_template("mixpanel", server_at(sink.url), sink.project, sink.event)


def violations(path: str, sink: spec_pb2.MixpanelSink, context: ValidationContext) -> Iterator[Violation]:
    """Yield the violations of project, event, identity and credentials."""
    if not _PROJECT.fullmatch(sink.project):
        yield Violation(f"{path}.project", "must be the number of a project", "INVALID_NAME")
    if not sink.user or ":" in sink.user or not sink.user.isprintable():
        problem = "must be printable characters, without a colon"
        yield Violation(f"{path}.user", problem, "INVALID_CHARACTER")
    if sink.region not in REGIONS:
        yield Violation(f"{path}.region", f"must be one of {', '.join(REGIONS)}", "INVALID_NAME")
    yield from fields.url(f"{path}.url", sink.url)
    yield from events.secret(f"{path}.secret", sink.HasField("secret"), sink.secret)
    if not sink.event:
        yield Violation(f"{path}.event", "is required", "REQUIRED")
    yield from events.violations(path, sink.event, sink.identity, context.output, MOST_PROPERTIES)
