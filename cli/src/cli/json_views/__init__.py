"""The JSON documents of the commands: what a script sees; a file for each thing."""

from cli.json_views.alerts import alert
from cli.json_views.clusters import cluster
from cli.json_views.daggers import action, dagger, error
from cli.json_views.events import event, unpacked
from cli.json_views.findings import column, finding
from cli.json_views.quarantine import quarantined
from cli.json_views.references import reference
from cli.json_views.streams import stream

__all__ = [
    "action",
    "alert",
    "cluster",
    "column",
    "dagger",
    "error",
    "event",
    "finding",
    "quarantined",
    "reference",
    "stream",
    "unpacked",
]
