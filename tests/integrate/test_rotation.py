"""Tokens are replaced under a gateway and a client that both go on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
import structlog
from tests.gateways import served

from chassis.endpoint import endpoint
from chassis.files import replace_text
from daggerclient import Client, RefusedError

OLD, NEW = "0123456789abcdef0123", "fedcba9876543210fedc"


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger("critical"))
    yield
    structlog.reset_defaults()


def test_a_client_goes_on_with_the_new_token_and_the_old_one_is_refused(tmp_path: Path) -> None:
    known, mine, theirs = (tmp_path / name for name in ("known", "mine", "theirs"))
    replace_text(known, f"bot:{OLD}\n")
    replace_text(mine, OLD)
    replace_text(theirs, OLD)
    reached = endpoint("127.0.0.1:0", tokens=known)
    with served(reached, f"sqlite:///{tmp_path / 'projection.db'}") as port:
        address = f"127.0.0.1:{port}"
        with Client(address, token_file=mine) as client, Client(address, token_file=theirs) as other:
            before = client.clusters()
            replace_text(known, f"bot:{OLD}\nbot:{NEW}\n")  # both are good while callers change over
            between = client.clusters()
            replace_text(mine, NEW)
            changed = client.clusters()
            replace_text(known, f"bot:{NEW}\n")
            after = client.clusters()
            with pytest.raises(RefusedError) as caught:
                other.clusters()

    assert [len(found) for found in (before, between, changed, after)] == [0, 0, 0, 0]
    assert caught.value.code is grpc.StatusCode.UNAUTHENTICATED
