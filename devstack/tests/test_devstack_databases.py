"""The databases that the embedded InfluxDB has for teams: each with a user who may do nothing elsewhere."""

import subprocess
import sys
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path

import pytest
import urllib3

from cli.errors import RefusedError
from devstack import influxdb, state
from devstack.state import Influx, Stack

pytestmark = pytest.mark.integration
DAGGERS = Path(sys.executable).with_name("daggers")


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A stack of which only InfluxDB runs."""
    folder = tmp_path_factory.mktemp("databases")
    place = ("--state-dir", str(folder))
    subprocess.run(
        [DAGGERS, "local", "up", "--only", "influxdb", "--detach", *place], check=True, timeout=600
    )
    try:
        yield state.require(folder)
    finally:
        subprocess.run([DAGGERS, "local", "down", *place], check=True, timeout=180)


def asked(path: str, own: Influx, *, body: bytes = b"") -> urllib3.BaseHTTPResponse:
    """An answer of the server to a user of a database."""
    token = influxdb.read_token(own.token_file or "")
    headers = urllib3.make_headers(basic_auth=token)
    with urllib3.PoolManager(retries=False, timeout=10) as http:
        return http.request("POST", f"{own.url}{path}", body=body, headers=headers)


def test_a_team_reads_and_writes_its_own_database_and_no_other(stack: Stack, tmp_path: Path) -> None:
    pricing = influxdb.own_database(stack, "pricing", tmp_path / "pricing")
    delivery = influxdb.own_database(stack, "delivery", tmp_path / "delivery")
    password = (tmp_path / "pricing").read_text()

    assert influxdb.own_database(stack, "pricing", tmp_path / "pricing") == pricing  # again is no harm
    assert (tmp_path / "pricing").read_text() == password
    assert (tmp_path / "pricing").stat().st_mode & 0o777 == 0o600
    assert asked("/write?db=pricing", pricing, body=b"m v=1 1").status == HTTPStatus.NO_CONTENT
    for other in ("delivery", state.DATABASE):
        assert asked(f"/write?db={other}", pricing, body=b"m v=1 1").status == HTTPStatus.FORBIDDEN
        assert asked(f"/query?db={other}&q=SELECT+v+FROM+m", pricing).status == HTTPStatus.FORBIDDEN
    assert "values" in asked("/query?db=pricing&q=SELECT+v+FROM+m", pricing).json()["results"][0]["series"][0]
    databases = asked("/query?q=SHOW+DATABASES", delivery).json()["results"][0]["series"][0]["values"]
    assert databases == [["delivery"]]


def test_a_token_that_was_lost_is_no_reason_to_change_a_password_unasked(
    stack: Stack, tmp_path: Path
) -> None:
    influxdb.own_database(stack, "crm", tmp_path / "crm")
    (tmp_path / "crm").unlink()

    with pytest.raises(RefusedError, match="InfluxDB does not make the database crm: user already exists"):
        influxdb.own_database(stack, "crm", tmp_path / "crm")
