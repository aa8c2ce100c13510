"""Teams, service accounts and grants by the command, against a gateway."""

import json
from typing import Any

import pytest

PRICING = """\
kind: team
name: pricing
contact: "#pricing"
members:
  - {user: ada@example.org, role: owner}
  - {group: analysts, role: viewer}
"""


@pytest.fixture
def pricing(shell: Any) -> Any:
    """A shell whose gateway knows the team pricing."""
    assert shell("team", "apply", shell.file("pricing.yaml", PRICING))[0] == 0
    return shell


def test_a_team_of_a_file_is_registered_shown_and_deleted(shell: Any) -> None:
    file = shell.file("pricing.yaml", PRICING)
    first, second = shell("team", "apply", "-f", file), shell("team", "apply", file)
    told = json.loads(shell("team", "get", "pricing", "-o", "json")[1])
    listed = shell("team", "list")[1]
    gone = shell("team", "delete", "pricing", "--yes")

    assert (first[1], second[1]) == (
        "team pricing is registered (version 1)\n",
        "team pricing is registered (version 2)\n",
    )
    assert told["members"] == [
        {"principal": "group:analysts", "role": "viewer"},
        {"principal": "user:ada@example.org", "role": "owner"},
    ]
    assert "group:analysts (viewer), user:ada@example.org (owner)" in listed
    assert gone[:2] == (0, "team pricing is deleted\n")
    assert shell("team", "list")[2] == "no teams yet\n"


def test_all_that_is_wrong_with_a_file_is_told_with_its_place(shell: Any) -> None:
    members = "  - {user: a, group: b, role: owner}\n  - {user: a, role: boss}\n"
    text = f"kind: dagger\nname: pricing\nmembers:\n{members}"
    code, out, _ = shell("team", "apply", shell.file("team.yaml", text), "-o", "json")
    findings = json.loads(out)["error"]["findings"]

    assert code == 1
    assert [(finding["field"], finding["line"]) for finding in findings] == [
        ("kind", 1), ("members[0]", 4), ("members[1].role", 5),
    ]  # fmt: skip


@pytest.mark.parametrize("text", ["", "a: [", "- 1\n"])
def test_what_is_no_team_is_refused_in_one_sentence(shell: Any, text: str) -> None:
    code, _, said = shell("team", "apply", shell.file("team.yaml", text))

    assert code == 1
    assert "team.yaml" in said
    assert "Traceback" not in said


def test_a_role_is_given_and_taken(pricing: Any) -> None:
    given = pricing("grant", "role", "user:bob", "editor", "--team", "pricing")
    taken = pricing("grant", "revoke", "user:bob", "--team", "pricing")
    again = pricing("grant", "revoke", "user:bob", "--team", "pricing")
    made = pricing("grant", "role", "user:root", "administrator")
    platform = json.loads(pricing("team", "get", "-o", "json")[1])

    assert given[:2] == (0, "user:bob is editor of team pricing\n")
    assert taken[:2] == (0, "user:bob has no role in team pricing any more\n")
    assert (again[0], "user:bob has no role in team pricing" in again[2]) == (1, True)
    assert made[:2] == (0, "user:root is administrator of the platform\n")
    assert platform["members"] == [{"principal": "user:root", "role": "administrator"}]


@pytest.mark.parametrize(
    "words",
    [
        ("role", "user:ada", "administrator", "--team", "pricing"),
        ("role", "user:ada", "owner"),
        ("stream", "orders"),
        ("stream", "orders", "--all", "--none"),
    ],
)
def test_flags_that_do_not_go_together_are_misused(shell: Any, words: tuple[str, ...]) -> None:
    assert shell("grant", *words)[0] == 2


def test_a_principal_that_names_nobody_is_refused_by_its_argument(pricing: Any) -> None:
    code, out, _ = pricing("grant", "role", "ada", "owner", "--team", "pricing", "-o", "json")

    assert (code, json.loads(out)["error"]["findings"][0]["field"]) == (1, "PRINCIPAL")


def test_an_account_shows_its_token_once_alone_on_stdout(pricing: Any) -> None:
    words = ("account", "create", "ci-deploys", "--team", "pricing", "--role", "editor")
    code, token, said = pricing(*words, "--for", "deploys", "--lifetime", "90d")
    rotated = json.loads(pricing("account", "rotate", "ci-deploys", "--overlap", "1d", "-o", "json")[1])
    listed = json.loads(pricing("account", "list", "--team", "pricing", "-o", "json")[1])
    gone = pricing("account", "revoke", "ci-deploys", "--yes")

    assert (code, token.count("\n"), token.startswith("dgr.ci-deploys.")) == (0, 1, True)
    assert "shown once" in said
    assert rotated["token"] != token.strip()
    assert [each["name"] for each in listed] == ["ci-deploys"]
    assert [each["expire_time"] is None for each in listed[0]["tokens"]] == [True, False]
    assert "dgr." not in str(listed)
    assert gone[:2] == (0, "service account ci-deploys is revoked\n")


def test_a_span_that_is_none_is_misused(pricing: Any) -> None:
    words = ("account", "create", "ci-deploys", "--team", "pricing", "--role", "editor")

    assert pricing(*words, "--lifetime", "soon")[0] == 2


def test_a_stream_is_read_by_the_teams_that_are_named(pricing: Any) -> None:
    pricing.fill()
    some = pricing("grant", "stream", "orders", "--team", "pricing")
    listed = pricing("grant", "list")[1]
    none = pricing("grant", "stream", "orders", "--none")
    every = pricing("grant", "stream", "orders", "--all")

    assert some[:2] == (0, "stream orders is read by: pricing\n")
    assert "orders" in listed
    assert none[1] == "stream orders is read by: none\n"
    assert every[1] == "stream orders is read by: all\n"


def test_sensitive_fields_are_seen_by_who_is_named_whatever_teams_read_the_stream(pricing: Any) -> None:
    pricing.fill()
    registered = pricing(
        "stream", "register", "orders", "--cluster", "local", "--topic", "orders",
        "--message", "shop.v1.Order", "--time-field", "event_time", "--sensitive", "price",
    )  # fmt: skip
    stream = json.loads(pricing("stream", "get", "orders", "-o", "json")[1])
    some = pricing("grant", "sensitive", "orders", "--to", "user:ada", "--to", "group:staff")
    pricing("grant", "stream", "orders", "--team", "pricing")
    kept = json.loads(pricing("grant", "list", "-o", "json")[1])
    none = pricing("grant", "sensitive", "orders", "--none")
    after = json.loads(pricing("grant", "list", "-o", "json")[1])
    misused = [pricing("grant", "sensitive", "orders", *words)[0] for words in ((), ("--to", "a", "--none"))]

    assert (registered[0], stream["sensitive"]) == (0, ["price"])
    assert some[1] == "sensitive fields of stream orders are seen by: administrators, group:staff, user:ada\n"
    assert kept == [
        {"stream": "orders", "restricted": True, "teams": ["pricing"],
         "read_sensitive": ["group:staff", "user:ada"]},
    ]  # fmt: skip
    assert none[1] == "sensitive fields of stream orders are seen by: administrators\n"
    assert (after[0]["teams"], after[0]["read_sensitive"]) == (["pricing"], [])
    assert misused == [2, 2]


FARES = "influx://influx:8086/rows/fares"


def test_what_sinks_write_to_is_given_listed_and_released(pricing: Any) -> None:
    given = pricing("team", "give", FARES, "pricing")
    moved = json.loads(pricing("team", "give", FARES, "pricing", "-o", "json")[1])
    listed = json.loads(pricing("team", "destinations", "-o", "json")[1])
    table = pricing("team", "destinations")
    others = pricing("team", "destinations", "--team", "riders")
    tried = pricing("team", "release", FARES, "--dry-run")
    apart = pricing("team", "conflicts")
    gone = json.loads(pricing("team", "release", FARES, "--yes", "-o", "json")[1])
    again = pricing("team", "release", FARES, "--yes")
    events = pricing("events")[1]

    assert given[:2] == (0, f"{FARES} is team pricing's (version 1)\n")
    assert moved == {"name": FARES, "team": "pricing", "version": 2, "sequence": moved["sequence"]}
    assert listed == [{"name": FARES, "team": "pricing"}]
    assert [line.split() for line in table[1].splitlines()] == [["DESTINATION", "TEAM"], [FARES, "pricing"]]
    assert others == (0, "", "no team owns any\n")
    assert apart == (0, "", "no dagger writes to what another team owns\n")
    assert tried[:2] == (0, f"destination {FARES} can be released\n")
    assert gone == {"name": FARES, "sequence": moved["sequence"] + 1, "dry_run": False}
    assert (again[0], again[1]) == (1, "")
    assert f"no team owns {FARES}" in again[2]
    assert "destination given to team pricing by anonymous" in events
    assert "destination released by anonymous" in events


def test_a_destination_that_is_written_otherwise_is_refused_by_its_argument(pricing: Any) -> None:
    code, out, _ = pricing("team", "give", "influx://influx:8086/rows/a b", "pricing", "-o", "json")
    _, _, words = pricing("team", "give", "fares", "pricing")
    nobody = pricing("team", "give", FARES, "prycing")
    [finding] = json.loads(out)["error"]["findings"]

    assert (code, finding["field"], finding["suggestion"]) == (
        1, "DESTINATION", "influx://influx:8086/rows/a%20b",
    )  # fmt: skip
    assert "DESTINATION" in words
    assert "KIND://SERVER/CONTAINER/NAME" in words
    assert (nobody[0], "did you mean pricing?" in nobody[2]) == (1, True)


def test_a_team_that_owns_a_destination_is_not_deleted(pricing: Any) -> None:
    pricing("team", "give", FARES, "pricing")
    used = pricing("team", "delete", "pricing", "--yes")
    released = pricing("team", "release", FARES, "--yes")
    gone = pricing("team", "delete", "pricing", "--yes")

    assert (used[0], f"is used by destination {FARES}" in used[2]) == (1, True)
    assert (released[0], gone[0]) == (0, 0)


def test_events_say_who_was_given_what(pricing: Any) -> None:
    pricing("account", "create", "ci-deploys", "--team", "pricing", "--role", "editor")
    pricing("grant", "role", "user:bob", "viewer", "--team", "pricing")
    said = pricing("events")[1]

    assert "team registered, members: 2 by anonymous" in said
    assert "service account created as editor of team pricing by anonymous" in said
    assert "user:bob made viewer of team pricing by anonymous" in said


def test_who_asks_is_told_who_that_is(shell: Any) -> None:
    assert shell("whoami")[:2] == (0, "anonymous: administrator\n")
    assert json.loads(shell("whoami", "-o", "json")[1])["roles"] == []
