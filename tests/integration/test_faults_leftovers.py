"""Who listens, and what is left: what `local status` tells of, on loopback only, and nothing after down."""

from ipaddress import ip_address
from pathlib import Path

import psutil
import pytest
from conftest import Stack
from tests.integration.bookings import Bookings
from tests.integration.cli import Cli
from tests.integration.faults import belonging, down, driver, listens, up

pytestmark = [pytest.mark.integration, pytest.mark.long]


def test_every_listening_socket_is_told_by_status_and_on_loopback_and_nothing_is_left_after_down(
    stack: Stack, cli: Cli, tmp_path: Path
) -> None:
    before = {process.pid for process in psutil.process_iter()}
    name, file = Bookings(stack.kafka, cli).dagger(tmp_path)
    cli("apply", "-f", file, "--wait")
    told = {(each["pid"], port) for each in stack.status()["processes"] for port in each["ports"]}
    ours = set(belonging(stack.state_dir))
    sockets = [
        (process.pid, connection.laddr)
        for process in ours
        for connection in process.net_connections(kind="inet")
        if connection.status == psutil.CONN_LISTEN or (connection.type == 2 and not connection.raddr)
    ]
    jvm_parts = {process.pid for session in driver(stack, name).values() for process in session}

    down(stack)
    left = list(belonging(stack.state_dir))
    held = [port for _, port in told if listens(port)]
    up(stack)
    cli("delete", name, "--wait")

    assert {(pid, address.port) for pid, address in sockets} == told
    assert {ip_address(address.ip).is_loopback or mapped(address.ip) for _, address in sockets} == {True}
    assert jvm_parts <= {process.pid for process in ours}
    assert jvm_parts.isdisjoint(before)
    assert (left, held) == ([], [])


def mapped(address: str) -> bool:
    """Whether it is IPv4 loopback as an IPv6 socket names it."""
    inner = getattr(ip_address(address), "ipv4_mapped", None)
    return inner is not None and inner.is_loopback
