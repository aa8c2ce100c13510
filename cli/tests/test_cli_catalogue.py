"""get and delete of what is registered, at the command line."""

import json
from typing import Any

import pytest

TABLE = ("reference", "register", "cities", "--format", "csv", "--location", "/tables/cities.csv")


@pytest.fixture
def filled(shell: Any) -> Any:
    """A gateway that knows a cluster, a message, a stream and a reference table."""
    shell.fill()
    assert shell(*TABLE)[0] == 0
    return shell


def test_one_entry_is_shown_with_its_version(filled: Any) -> None:
    shown = {kind: filled(kind, "get", name) for kind, name in
             (("cluster", "local"), ("stream", "orders"), ("reference", "cities"))}  # fmt: skip
    lines = {kind: [line.split() for line in out.splitlines()] for kind, (_, out, _) in shown.items()}
    document = json.loads(filled("stream", "get", "orders", "-o", "json")[1])

    assert lines["cluster"][0] == ["NAME", "KAFKA", "SPARK", "INFLUX", "VERSION"]
    assert lines["stream"][1][:4] == ["orders", "local", "orders", "shop.v1.Order"]
    assert lines["reference"][1][:3] == ["cities", "csv", "/tables/cities.csv"]
    assert document["name"] == "orders"
    assert document["version"] == int(lines["stream"][1][-1])


def test_a_list_of_clusters_says_what_runs_there_and_which_is_a_playground(filled: Any) -> None:
    assert filled("cluster", "register", "try", "--spark-master", "local[2]", "--playground")[0] == 0
    lines = [line.split() for line in filled("cluster", "list")[1].splitlines()]
    document = {each["name"]: each for each in json.loads(filled("cluster", "list", "-o", "json")[1])}
    assert filled("cluster", "delete", "try", "--yes")[0] == 0  # the others find what they know

    assert lines[0] == ["NAME", "KAFKA", "SPARK", "INFLUX", "DRIVERS", "ROOM"]
    assert [(line[0], line[-2:]) for line in lines[1:]] == [("local", ["0", "-"]), ("try", ["0", "-"])]
    assert lines[2][1] == "(playground)"
    assert (document["local"]["playground"], document["try"]["playground"]) == (False, True)
    assert [(each["daggers"], each["drivers"], each["room"]) for each in document.values()] == [
        (0, 0, None)
    ] * 2


def test_a_schema_is_got_as_it_is_shown(filled: Any) -> None:
    got, shown = (filled("schema", verb, "shop.v1.Order") for verb in ("get", "show"))

    assert (got[0], got) == (0, shown)


def test_what_is_used_is_not_deleted_and_its_user_is_named(filled: Any) -> None:
    code, out, _ = filled("cluster", "delete", "local", "--yes", "-o", "json")
    error = json.loads(out)["error"]

    assert (code, error["reason"]) == (1, "IN_USE")
    assert "used by stream orders" in error["message"]


def test_what_nothing_uses_is_deleted_in_the_order_of_its_uses(filled: Any) -> None:
    deleted = [
        filled(kind, "delete", name, "--yes")
        for kind, name in (
            ("stream", "orders"), ("schema", "shop.v1.Order"), ("cluster", "local"), ("reference", "cities"),
        )
    ]  # fmt: skip
    left = [json.loads(filled(kind, "list", "-o", "json")[1]) for kind in ("stream", "cluster", "reference")]

    assert [(code, out) for code, out, _ in deleted] == [
        (0, "stream orders is deleted\n"),
        (0, "message shop.v1.Order is deleted\n"),
        (0, "cluster local is deleted\n"),
        (0, "reference table cities is deleted\n"),
    ]
    assert left == [[], [], []]


@pytest.mark.parametrize(
    ("kind", "name", "meant"),
    [
        ("cluster", "locl", "local"),
        ("stream", "order", "orders"),
        ("schema", "shop.v1.Ordr", "shop.v1.Order"),
        ("reference", "citys", "cities"),
    ],
)
@pytest.mark.parametrize("verb", ["get", "delete"])
def test_a_name_that_is_not_there_names_the_one_that_may_be_meant(
    filled: Any, kind: str, name: str, meant: str, verb: str
) -> None:
    code, _, err = filled(kind, verb, name, *(["--yes"] if verb == "delete" else []))

    assert (code, f"did you mean {meant}?" in err) == (1, True)
