"""Documents of the use of clusters."""

from typing import Any

from daggers.v1 import gateway_pb2

from cli.output.json_views.answers import to_json


def use_document(use: gateway_pb2.ClusterUse | None) -> dict[str, Any]:
    """Convert what runs on a cluster; nulls where the gateway does not say."""
    return to_json(use) if use is not None else dict.fromkeys(("daggers", "drivers", "room"))
