"""Helpers of test_sink_hostile_rows.py and of its neighbours."""

from __future__ import annotations

from typing import Any, Final

TEMPLATES: Final[dict[str, dict[str, Any]]] = {
    "http": {"template": '{"window_timestamp": "${window_timestamp}", "tag_city": "${tag_city}", "n": "${n}",'
             ' "day": "${window_timestamp:%Y-%m-%d}"}'},
    "elasticsearch": {"id": "${tag_city}-${window_timestamp:%Y%m%d}"},
    "grpc": {"metadata": {"x-day": "${window_timestamp:%Y-%m-%d}"}},
    "clevertap": {"event": "counted on ${window_timestamp:%d.%m}"},
    "mixpanel": {"event": "counted on ${window_timestamp:%d.%m}"},
}  # fmt: skip
"""What sinks are told beside what their cases say, so that times are written by formats."""
