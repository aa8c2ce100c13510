"""A team's receivers are told of its daggers' alerts, else the platform's; they are what the log says now."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from daggers.v1 import access_pb2, alerts_pb2, events_pb2, spec_pb2

WAIT_S = 30


@pytest.fixture
def slack_file(world: Any, tmp_path: Path) -> Path:
    """The file with the URL of the team's channel."""
    file = tmp_path / "pricing-slack"
    file.write_text(f"{world.receiver.slack_url}?of=pricing\n")
    return file


def team(*files: Mapping[str, Path], kind: str = "slack", name: str = "pricing") -> Any:
    """Registers a team with a receiver for each of these secrets."""
    told = [
        access_pb2.TeamReceiver(
            kind=kind, secrets={key: spec_pb2.SecretRef(file=str(path)) for key, path in file.items()}
        )
        for file in files
    ]
    return events_pb2.TeamRegistered(team=access_pb2.Team(name=name, receivers=told))


def emptied(file: Path) -> str:
    """What stood in a file that is there no more."""
    text = file.read_text()
    file.unlink()
    return text


def filled(file: Path, text: str) -> None:
    file.write_text(text)


def linked(file: Path, place: str) -> None:
    file.symlink_to(place)


async def until(world: Any, running: Any, wanted: str) -> list[str]:
    """What the log of alerts says once it says this."""
    async with asyncio.timeout(WAIT_S):
        while wanted not in (told := await world.events()):
            await running.step()
            await asyncio.sleep(0.01)  # what is told is under way beside the timers
    return list(told)


async def test_a_teams_receiver_is_told_what_begins_and_what_is_over_and_the_platforms_is_not(
    world: Any, slack_file: Path
) -> None:
    await world.tell(team({"url": slack_file}))
    async with world.monitor() as running:
        await world.fail_dagger()
        await until(world, running, "NotificationSent pricing/slack")
        await world.mend_dagger()
        await running.steps(4)
        async with asyncio.timeout(WAIT_S):
            while (await world.events()).count("NotificationSent pricing/slack") < 2:
                await running.step()
                await asyncio.sleep(0.01)
        events = await world.events()
    texts = [request.body["text"] for request in world.receiver.received]

    assert sorted(events) == sorted(
        ["MonitorStarted", "AlertFired", "AlertResolved", *["NotificationSent pricing/slack"] * 2]
    )
    assert ["resolved" in text for text in texts] == [False, True]


@pytest.mark.parametrize("registered", [None, team(), team(name="supply")])
async def test_a_team_without_receivers_is_told_through_the_platforms(world: Any, registered: Any) -> None:
    if registered is not None:
        await world.tell(registered)
    async with world.monitor() as running:
        await world.fail_dagger()
        await running.steps(6)

    assert sorted(await world.events())[1:] == [
        "MonitorStarted", "NotificationSent pagerduty", "NotificationSent slack",
    ]  # fmt: skip


async def test_a_file_that_is_not_there_is_said_and_tried_again_until_it_is(
    world: Any, slack_file: Path
) -> None:
    url = emptied(slack_file)
    await world.tell(team({"url": slack_file}))
    async with world.monitor() as running:
        await world.fail_dagger()
        await until(world, running, "NotificationFailed pricing/slack")
        failed = [
            record.message
            async for record in world.alerts.replay()
            if isinstance(record.message, alerts_pb2.NotificationFailed)
        ]
        filled(slack_file, url)
        await until(world, running, "NotificationSent pricing/slack")

    assert failed[0].reason == "NOT_CONFIGURED"
    assert str(slack_file) in failed[0].detail
    assert len(world.receiver.received) == 1


async def test_what_stands_in_a_file_is_never_said(world: Any, slack_file: Path) -> None:
    filled(slack_file, "a secret that is no URL")
    await world.tell(team({"url": slack_file}))
    async with world.monitor() as running:
        await world.fail_dagger()
        await until(world, running, "NotificationFailed pricing/slack")
        records = [record.value async for record in world.alerts.replay()]

    assert not any(b"a secret" in record for record in records)


async def test_what_is_no_file_of_a_team_is_not_read(world: Any, slack_file: Path) -> None:
    emptied(slack_file)
    linked(slack_file, "/proc/self/environ")
    await world.tell(team({"url": slack_file}))
    async with world.monitor() as running:
        await world.fail_dagger()
        await until(world, running, "NotificationFailed pricing/slack")
        failed = [record.message async for record in world.alerts.replay()]

    assert f"{slack_file}: it is not a regular file" in failed[-1].detail


async def test_a_receiver_that_the_team_has_no_more_is_given_up(world: Any, slack_file: Path) -> None:
    emptied(slack_file)
    await world.tell(team({"url": slack_file}))
    async with world.monitor() as running:
        await world.fail_dagger()
        await until(world, running, "NotificationFailed pricing/slack")
        await world.tell(team())
        async with asyncio.timeout(WAIT_S):
            while (await world.events()).count("NotificationFailed pricing/slack") < 2:
                await running.step()
                await asyncio.sleep(0.01)
        last = [record.message async for record in world.alerts.replay()][-1]

    assert (last.reason, last.HasField("not_before")) == ("NOT_A_RECEIVER", False)


# ---- Registered secrets, settings, the platform's team -----------------------------------------------------


def secret(file: Path, *, team: str = "pricing", to: str = "", name: str = "hook") -> Any:
    """Registers a secret that stands in a file."""
    place = spec_pb2.SecretRef(file=str(file))
    return events_pb2.SecretRegistered(
        secret=spec_pb2.Secret(name=name, place=place, team=team, addresses=[to])
    )


def with_secret(team: str = "pricing", name: str = "hook") -> Any:
    """Registers a team with a channel of Slack whose URL is a registered secret."""
    receiver = access_pb2.TeamReceiver(kind="slack", secrets={"url": spec_pb2.SecretRef(name=name)})
    return events_pb2.TeamRegistered(team=access_pb2.Team(name=team, receivers=[receiver]))


async def test_a_registered_secret_of_the_team_is_read_where_it_is(world: Any, slack_file: Path) -> None:
    await world.tell(secret(slack_file, to=f"http://127.0.0.1:{world.receiver.port}"))
    await world.tell(with_secret())
    async with world.monitor() as running:
        await world.fail_dagger()
        await until(world, running, "NotificationSent pricing/slack")

    assert len(world.receiver.received) == 1


@pytest.mark.parametrize(
    ("registered", "why"),
    [
        ({"name": "other"}, "team pricing has no registered secret hook"),
        ({"team": "crm"}, "team pricing has no registered secret hook"),
        ({"to": "https://hooks.slack.com"}, "url: it may be sent to https://hooks.slack.com only"),
    ],
)
async def test_a_secret_that_the_team_may_not_use_so_is_not_used(
    world: Any, slack_file: Path, registered: dict[str, str], why: str
) -> None:
    to = f"http://127.0.0.1:{world.receiver.port}"
    await world.tell(secret(slack_file, **{"to": to, **registered}))
    await world.tell(with_secret())
    async with world.monitor() as running:
        await world.fail_dagger()
        await until(world, running, "NotificationFailed pricing/slack")
        failed = [record.message async for record in world.alerts.replay()][-1]

    assert failed.reason == "NOT_CONFIGURED"
    assert failed.detail.endswith(why)
    assert world.receiver.received == []


async def test_the_platforms_team_is_told_beside_the_settings_receivers(world: Any, slack_file: Path) -> None:
    await world.tell(team({"url": slack_file}, name="platform"))
    async with world.monitor() as running:
        await world.fail_dagger()
        await until(world, running, "NotificationSent platform/slack")
        events = await world.events()

    assert {event for event in events if event.startswith("NotificationSent")} == {
        "NotificationSent slack", "NotificationSent pagerduty", "NotificationSent platform/slack",
    }  # fmt: skip


async def test_the_platforms_team_is_told_while_kafka_is_away(world: Any, slack_file: Path) -> None:
    await world.tell(team({"url": slack_file}, name="platform"))
    async with world.monitor() as running:
        await running.steps(2)
        world.refuses = lambda _: True
        async with asyncio.timeout(WAIT_S):
            while sum("text" in call.body for call in world.receiver.received) < 2:
                await running.step(10)
                await asyncio.sleep(0.01)
        world.refuses = lambda _: False
        await running.steps(3)

    written = [record.message async for record in world.alerts.replay()]
    [report] = [event for event in written if isinstance(event, alerts_pb2.OutageReported)]
    assert {attempt.sent.receiver for attempt in report.attempts} == {
        "slack", "pagerduty", "platform/slack",
    }  # fmt: skip
