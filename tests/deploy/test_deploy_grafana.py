"""What the pages link to in Grafana is what deploy/compose ships."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
GRAFANA = ROOT / "deploy" / "compose" / "grafana"
PAGES = ROOT / "services" / "portal" / "web" / "src"
LINKS = (PAGES / "lib" / "grafana.ts").read_text()


def test_the_data_source_of_the_pages_is_provisioned() -> None:
    (source,) = yaml.safe_load((GRAFANA / "provisioning" / "datasources" / "influxdb.yaml").read_text())[
        "datasources"
    ]
    told = re.search(r'SOURCE = \{ type: "(\w+)", uid: "(\w+)" \}', LINKS)

    assert told is not None
    assert told.groups() == (source["type"], source["uid"])
    assert source["jsonData"]["version"] == "Flux"


def test_the_dashboards_of_the_pages_are_there_with_their_variables() -> None:
    boards: dict[str, Any] = {}
    for file in (GRAFANA / "dashboards").glob("*.json"):
        board = json.loads(file.read_text())
        boards[board["uid"]] = {variable["name"] for variable in board["templating"]["list"]}
    used = re.findall(
        r'board\(session\.me\.grafana, "(\w+)"(?:, \{ (\w+):)?',
        "".join(page.read_text() for page in PAGES.rglob("*.svelte")),
    )

    assert sorted(used) == [("dagger", "dagger"), ("platform", "")]
    for name, variable in used:
        assert name in boards
        assert not variable or variable in boards[name]
