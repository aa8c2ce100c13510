"""The pages of hosts: in the menu where there are several; what a drain moves and what stays; axe."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from daggers.v1 import events_pb2, gateway_pb2
from google.protobuf.timestamp_pb2 import Timestamp
from playwright.sync_api import Page, Route, expect
from tests.portal.answers import answer_once
from tests.portal.axe import violations
from tests.portal.conftest import Visit

Opened = Callable[..., Visit]
REGISTERED = events_pb2.HostRegistered(cores=4, memory_mib=8192, shared_checkpoints=True)


def make_host(name: str, **fields: object) -> gateway_pb2.Host:
    now = Timestamp()
    now.GetCurrentTime()
    return gateway_pb2.Host(
        name=name,
        registered=REGISTERED,
        heard_time=now,
        room_left=3,
        **fields,  # type: ignore[arg-type] # fields of Host
    )


def answer_hosts(page: Page, *names: str) -> list[str]:
    """Answer the calls of these pages; the list is filled with the methods that change something."""
    changes: list[str] = []
    daggers = [
        gateway_pb2.HostedDagger(name="orders", team="pricing", phase=gateway_pb2.RUNNING, keeps_state=True),
        gateway_pb2.HostedDagger(
            name="prices", stays=events_pb2.DaggerError(reason="MAX_MEMORY", detail="no other host takes it")
        ),
    ]
    move = gateway_pb2.HostMove(dagger="trips", generation=7, to_host="b")
    move.last_commit.FromSeconds(100)
    move.first_commit.FromSeconds(112)

    def answer(route: Route) -> None:
        method = route.request.url.rpartition("/")[2]
        if method == "ListHosts":
            hosts = [make_host(name, daggers=2) for name in names]
            answer_once(route, gateway_pb2.ListHostsResponse(hosts=hosts))
            return
        host = make_host("a", daggers=2)
        if method != "GetHost":
            changes.append(method)
        if changes:
            host.cordon.CopyFrom(gateway_pb2.HostCordon(actor="user:ada", drains=True, moves=[move]))
        answer_once(route, gateway_pb2.GetHostResponse(host=host, daggers=daggers))

    page.route(re.compile(r"daggers\.v1\.FleetService/"), answer)
    return changes


def test_a_host_is_drained_and_says_what_moves_what_stays_and_how_long_each_was_silent(
    visit: Opened,
) -> None:
    one = visit()
    changes = answer_hosts(one.page, "a", "b")
    page = one.open("/hosts", "Hosts")
    expect(page.get_by_role("row", name=re.compile("^b "))).to_contain_text("8,192")
    page.get_by_role("link", name="a", exact=True).click()
    expect(page.get_by_role("row").filter(has_text="prices")).to_contain_text("No other host takes it")
    page.get_by_role("button", name="Drain …").click()
    expect(page.get_by_text("Moved in this order: orders.")).to_be_visible()
    page.get_by_role("button", name="Drain it").click()
    expect(page.get_by_label("Moves")).to_contain_text("trips runs on b: 12 s between two batches")
    expect(page.get_by_role("button", name="Uncordon")).to_be_visible()

    assert changes == ["DrainHost"]


def test_hosts_are_in_the_menu_where_there_are_several(visit: Opened) -> None:
    for names in (("a",), ("a", "b")):
        one = visit()
        answer_hosts(one.page, *names)
        with one.page.expect_response(re.compile("FleetService/ListHosts")):
            page = one.open("/streams", "Streams")
        menu = page.get_by_role("navigation", name="Main")
        expect(menu.get_by_role("link", name="Hosts", exact=True)).to_have_count(len(names) - 1)


def test_pages_of_hosts_pass_axe_in_both_schemes_and_sizes(visit: Opened, packages: Path) -> None:
    one = visit(axe=True)
    answer_hosts(one.page, "a", "b")
    found = {}
    for path, heading in (("/hosts", "Hosts"), ("/hosts/a", "a")):
        page = one.open(path, heading)
        expect(page.get_by_role("table")).to_be_visible()
        found[path] = violations(page, packages)

    assert found == {"/hosts": [], "/hosts/a": []}
