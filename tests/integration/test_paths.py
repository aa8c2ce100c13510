"""A stack, and a dagger with its secret, schema and files, in folders of odd names and behind a proxy."""

from __future__ import annotations

import shutil
import subprocess
from contextlib import ExitStack
from pathlib import Path

import pyarrow.dataset as ds
import pytest
from conftest import running_stack
from tests.documents.pages import ROOT
from tests.forwardproxy import serving
from tests.integration.bookings import PROTO, Bookings, booking
from tests.integration.cli import Cli

pytestmark = pytest.mark.integration
ODD = "Mü ller, a=b %41 #1 $HOME 'q' \"d\" (x)&;@+[b]{c}?!~`t` \\w"
"""Spaces, commas, umlauts and all that some program has a meaning for."""


def below(folder: Path) -> set[str]:
    """What is in a folder, by its first names."""
    return {each.name for each in folder.iterdir()}


@pytest.mark.long
def test_a_stack_works_in_a_folder_of_any_name_and_says_nothing_to_the_environments_proxy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "place"
    place.mkdir()
    with ExitStack() as running:
        proxy = running.enter_context(serving({}))
        for name in ("http_proxy", "HTTPS_PROXY", "all_proxy", "grpc_proxy"):
            monkeypatch.setenv(name, proxy.url)
        monkeypatch.delenv("no_proxy", raising=False)
        monkeypatch.delenv("NO_PROXY", raising=False)
        stack = running.enter_context(running_stack(place / ODD))
        cli = Cli(stack.state_dir)
        schemas = stack.state_dir / "schemas: of = us"  # a colon, too: it goes to no Java
        schemas.mkdir()
        (schemas / "a=b.proto").write_text(PROTO.read_text().replace("it.v1", "odd.v1"))
        cli("schema", "register", schemas / "a=b.proto")
        stream = Bookings(stack.kafka, cli)
        files = str(stack.state_dir / "files")
        sinks = [{"influx": {}}, {"parquet": {"location": files, "table": "counts"}}]
        name, path = stream.dagger(stack.state_dir, sinks=sinks)
        cli("apply", path, "--wait")
        stream.write([booking(second) for second in range(70)])
        stream.write([booking(300)])
        rows = cli.rows(name, enough=lambda found: len(found) >= 2)
        cli("stop", name, "--wait")
        table = ds.dataset(f"{files}/counts", format="parquet", exclude_invalid_files=True).to_table()

        assert {10, 60} <= {row["fields"]["num_of_bookings"] for row in rows}
        assert {10, 60} <= {*table["num_of_bookings"].to_pylist()}
        assert {"checkpoints", "runs", "gateway.sqlite", "kafka", "influxdb"} <= below(stack.state_dir)
    assert (below(place), proxy.asked) == ({ODD}, [])


@pytest.mark.parametrize("name", ["a:b", "a\nb", "😀"])
def test_a_folder_in_which_something_cannot_work_is_refused_before_anything_is_written(
    tmp_path: Path, name: str
) -> None:
    refused = Cli(tmp_path / name).try_("local", "up", "--detach")

    assert refused.code == 1
    assert refused.json["error"]["reason"] == "PATH_UNUSABLE"
    assert "cannot be used" in refused.err
    assert below(tmp_path) == set()


@pytest.mark.parametrize("name", ["a#b", "a?b", "a:b", "a\\b"])
def test_a_checkout_that_cannot_be_built_is_refused_before_anything_is_written(
    tmp_path: Path, name: str
) -> None:
    checkout = tmp_path / name
    checkout.mkdir()
    for file in ("Makefile", "requirements-uv.lock"):
        shutil.copy(ROOT / file, checkout)
    refused = subprocess.run(
        ["make", "setup"], cwd=checkout, capture_output=True, text=True, check=False, timeout=60
    )

    what = "a checkout without #, ?, : and backslashes in its path"
    assert refused.returncode == 2
    assert (
        f"missing: {what}, which no quoting carries to all that builds it: move {checkout}" in refused.stdout
    )
    assert below(checkout) == {"Makefile", "requirements-uv.lock"}
