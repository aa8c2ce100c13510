"""Launches of one process share what it uses."""

from chassis.processes import SessionUsage
from runtime.launch.usage_share import UsageShare


def test_the_shares_of_all_launches_are_what_the_process_uses() -> None:
    count = 1
    first = UsageShare(lambda: count, is_first=True)
    alone = first.measure(SessionUsage(600, 10.0))
    count = 2
    second = UsageShare(lambda: count, is_first=False)
    joined = second.measure(SessionUsage(700, 12.0))
    first.measure(SessionUsage(700, 12.0))
    shares = [share.measure(SessionUsage(700, 20.0)) for share in (first, second)]
    fewer = first.measure(SessionUsage(700, 19.0))

    count = 1
    late = UsageShare(lambda: count, is_first=False).measure(SessionUsage(600, 20.0))

    assert late == SessionUsage(600, 0.0)
    assert alone == SessionUsage(600, 10.0)
    assert joined == SessionUsage(350, 0.0)
    assert shares == [SessionUsage(350, 15.0), SessionUsage(350, 4.0)]
    assert fewer.cpu_seconds == 15.0
