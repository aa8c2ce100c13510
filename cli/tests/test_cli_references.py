"""Reference tables as the command registers and lists them."""

import json
from typing import Any


def test_a_registered_table_is_listed(shell: Any) -> None:
    words = ("reference", "register", "cities", "--format", "csv", "--location", "/tables/cities.csv")
    first, second = shell(*words, "-o", "json"), shell(*words)
    listed = json.loads(shell("reference", "list", "-o", "json")[1])

    table = {"name": "cities", "format": "csv", "location": "/tables/cities.csv"}
    assert (first[0], json.loads(first[1])["version"], second[1]) == (
        0,
        1,
        "reference table cities is registered (version 2)\n",
    )
    assert listed == [table]


def test_what_is_wrong_with_a_table_names_the_flags_and_the_allowed_places(shell: Any) -> None:
    code, out, _ = shell(
        "reference", "register", "a!", "--format", "json", "--location", "/etc/x", "-o", "json"
    )
    found = json.loads(out)["error"]["findings"]

    assert (code, [each["field"] for each in found]) == (1, ["NAME", "--location"])
    assert "allowed are /tables" in found[1]["message"]
