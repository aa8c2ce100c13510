"""The file of a team: what it says is registered, and what is wrong with it is told with its place."""

import sys
from pathlib import Path

import pytest
from daggers.v1 import access_pb2, spec_pb2

from daggerclient import InvalidFileError, teamfile
from daggerspec import receivers

WHOLE = """\
kind: team
name: pricing
contact: "#pricing"
members:
  - {user: ada@example.org, role: owner}
receivers:
  - slack: {url: {file: /run/hook}}
  - pagerduty: {routing_key: {file: /run/key}}
  - email: {url: mail-server, to: "a@example.org, b@example.org", sender: daggers@example.org}
quotas:
  memory: {hard: 64g}
"""


def test_what_a_file_says_of_receivers_is_registered_and_shown_the_same() -> None:
    team = teamfile.parse(WHOLE, "team.yaml")

    assert list(team.receivers) == [
        access_pb2.TeamReceiver(kind="slack", secrets={"url": spec_pb2.SecretRef(file="/run/hook")}),
        access_pb2.TeamReceiver(
            kind="pagerduty", secrets={"routing_key": spec_pb2.SecretRef(file="/run/key")}
        ),
        access_pb2.TeamReceiver(
            kind="email",
            secrets={"url": spec_pb2.SecretRef(name="mail-server")},
            settings={"to": "a@example.org, b@example.org", "sender": "daggers@example.org"},
        ),
    ]
    assert teamfile.to_document(team)["receivers"] == [
        {"slack": {"url": {"file": "/run/hook"}}},
        {"pagerduty": {"routing_key": {"file": "/run/key"}}},
        {
            "email": {
                "url": "mail-server",
                "sender": "daggers@example.org",
                "to": "a@example.org, b@example.org",
            }
        },
    ]
    assert list(receivers.violations("team.receivers", team.receivers)) == []


@pytest.mark.parametrize(
    ("receiver", "code"),
    [
        ("slak: {url: {file: /run/hook}}", "UNKNOWN_KEY"),
        ("slack: {}", "MISSING_KEY"),
        ("email: {url: mail-server, to: a@example.org}", "MISSING_KEY"),
        ("slack: {url: https://hooks.slack.com/services/T0}", "INLINE_SECRET"),
        ("{slack: {url: {file: /a}}, pagerduty: {routing_key: {file: /b}}}", "WRONG_TYPE"),
    ],
)
def test_a_receiver_that_is_none_is_told_with_its_place(receiver: str, code: str) -> None:
    with pytest.raises(InvalidFileError) as caught:
        teamfile.parse(f"kind: team\nname: pricing\nreceivers:\n  - {receiver}\n", "team.yaml")

    assert [(finding["code"], finding["line"]) for finding in caught.value.findings] == [(code, 4)]


def test_a_kind_that_is_dropped_in_is_read_and_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pigeon.py").write_text('SECRETS = {"ring": True, "paper": False}\nSETTINGS = {}\n')
    monkeypatch.setattr(receivers, "__path__", [*receivers.__path__, str(tmp_path)])
    monkeypatch.setitem(sys.modules, "daggerspec.receivers.pigeon", None)
    monkeypatch.delitem(sys.modules, "daggerspec.receivers.pigeon")

    team = teamfile.parse(
        "kind: team\nname: t\nreceivers:\n  - pigeon: {ring: {file: /run/ring}}\n", "team.yaml"
    )
    bare = access_pb2.TeamReceiver(kind="pigeon")
    misspelt = access_pb2.TeamReceiver(kind="pigon")
    wrong = receivers.violations("team.receivers", [*team.receivers, bare, misspelt])

    assert [receiver.kind for receiver in team.receivers] == ["pigeon"]
    assert [(violation.field, violation.reason, violation.suggestion) for violation in wrong] == [
        ("team.receivers[1]", "DUPLICATE", None),
        ("team.receivers[1].secrets.ring", "REQUIRED", None),
        ("team.receivers[2].kind", "UNKNOWN_KIND", "pigeon"),
    ]


@pytest.mark.parametrize(
    ("settings", "found"),
    [
        ({"to": "a@example.org"}, [("sender", "REQUIRED")]),
        ({"to": "Ada <a@example.org>", "sender": "d@example.org"}, [("to", "INVALID_SETTING")]),
        ({"to": "a@example.org\r\nBcc: x@example.org", "sender": "d@x"}, [("to", "INVALID_SETTING")]),
        ({"to": "a@example.org", "sender": "d@x, e@x"}, [("sender", "INVALID_SETTING")]),
        ({"to": ", ".join(["a@x"] * 21), "sender": "d@x"}, [("to", "INVALID_SETTING")]),
        ({"to": "a@x", "sender": "d@x", "cc": "b@x"}, [("cc", "UNKNOWN_KEY")]),
    ],
)
def test_what_a_mail_needs_to_know_is_judged(settings: dict[str, str], found: list[tuple[str, str]]) -> None:
    mail = access_pb2.TeamReceiver(
        kind="email", secrets={"url": spec_pb2.SecretRef(name="mail-server")}, settings=settings
    )

    wrong = receivers.violations("team.receivers", [mail])

    assert [(violation.field, violation.reason) for violation in wrong] == [
        (f"team.receivers[0].settings.{key}", reason) for key, reason in found
    ]
