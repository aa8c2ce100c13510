"""How long previews of a team ran in the last hour: counted, warned of, refused."""

from __future__ import annotations

from daggers.v1 import access_pb2

from api_gateway.hosts.preview_usage import PreviewSeconds

QUOTA = access_pb2.Quota(soft=50, hard=100)


def test_what_ended_more_than_an_hour_ago_counts_no_more() -> None:
    seconds = PreviewSeconds()
    seconds.add("pricing", 60, now=1000)
    seconds.add("pricing", 50, now=2000)
    seconds.add("other", 1, now=2000)

    used = [seconds.seconds_used("pricing", now) for now in (2000, 4599, 4600, 5600)]

    assert used == [110, 110, 50, 0]
    assert seconds.seconds_used("other", 2001) == 1


def test_a_team_beyond_its_quota_is_refused_until_there_is_some_again() -> None:
    seconds = PreviewSeconds()
    seconds.add("pricing", 60, now=1000)
    seconds.add("pricing", 50, now=2000)

    refused = seconds.refusal("pricing", QUOTA, now=4500)

    assert refused is not None
    assert "ran 110 seconds in the last hour, and its quota is 100" in refused[0]
    assert refused[0].endswith("in 2 min")
    assert refused[1]["quota"] == "preview_seconds_per_hour"
    assert seconds.refusal("pricing", QUOTA, now=4600) is None
    assert seconds.refusal("pricing", access_pb2.Quota(soft=1), now=2000) is None
    assert seconds.refusal("other", access_pb2.Quota(hard=0), now=2000) is not None


def test_a_soft_bound_warns() -> None:
    seconds = PreviewSeconds()
    seconds.add("pricing", 50, now=0)
    before = seconds.warning("pricing", QUOTA, now=1)
    seconds.add("pricing", 1, now=1)

    assert before is None
    assert "more than 50 seconds" in (seconds.warning("pricing", QUOTA, now=2) or "")
