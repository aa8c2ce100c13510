"""The page for who comes from Firehose: each of its settings has its place, and what stands there is so."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path

import pytest
from daggers.v1 import events_pb2, spec_pb2
from google.protobuf.descriptor import FileDescriptor
from tests.conformance.corpus import tables
from tests.documents.pages import ROOT, Page

from api_gateway.validate import spec_check
from api_gateway.validate.query_checks import Checks
from daggerclient.daggerfile.parse import parse
from daggerspec import sinks
from daggerspec.defaults import fill_defaults
from daggerspec.keys import Key
from eventlog.testing import given
from fleet import Fleet

NOW = datetime(2026, 7, 1, 12, tzinfo=UTC)
PAGE = Page(ROOT / "docs" / "coming-from-firehose.md")
SETTINGS = (Path(__file__).parent / "firehose_settings.txt").read_text("utf-8").split()
"""Of raystack/firehose 9a118de: the keys of its configuration and its documentation, without those of sinks
that the page names as not here.
"""
_ROW = re.compile(r"^\| (`[A-Z].*?) \| (.*) \|$", re.MULTILINE)
_SPAN = re.compile(r"`([^`]+)`")
_KEY = re.compile(r"[a-z_]+(?:\.[a-z_0-9]+)+")
HEAD = "name: orders\nteam: crm\ncluster: local\nstreams: [{stream: bookings}]\n"


def fleet() -> Fleet:
    """A cluster with a database, the stream `bookings` of the corpus, the schema of a service."""
    [message] = [table.message for table in tables() if table.name == "bookings"]
    schema = spec_pb2.Schema(messages=[message.full_name])
    files: dict[str, FileDescriptor] = {}
    _collect(message.file, files)
    for each in files.values():
        each.CopyToProto(schema.files.file.add())
    crm = spec_pb2.Schema(messages=["crm.v1.Order"])
    file = crm.files.file.add(name="crm.proto", package="crm.v1", syntax="proto3")
    order = file.message_type.add(name="Order")
    for number, name in enumerate(("order_id", "customer"), 1):
        order.field.add(name=name, number=number, type="TYPE_STRING", label="LABEL_OPTIONAL")
    file.service.add(name="Orders").method.add(
        name="Put", input_type=".crm.v1.Order", output_type=".crm.v1.Order"
    )
    cluster = spec_pb2.Cluster(
        name="local", spark_master="local[2]", kafka={"bootstrap_servers": "kafka:9092"}
    )
    cluster.influx.MergeFrom(spec_pb2.InfluxAddress(url="http://influx:8086", org="-", bucket="daggers"))
    stream = spec_pb2.Stream(name="bookings", cluster="local", topics=["bookings"])
    stream.message, stream.time_field = message.full_name, "event_timestamp"
    folded = Fleet()
    for record in given(
        events_pb2.ClusterRegistered(cluster=cluster),
        events_pb2.SchemaRegistered(schema=schema),
        events_pb2.SchemaRegistered(schema=crm),
        events_pb2.StreamRegistered(stream=stream),
    ):
        folded.apply(record)
    return folded


def _collect(file: FileDescriptor, files: dict[str, FileDescriptor]) -> None:
    for dependency in file.dependencies:
        _collect(dependency, files)
    files.setdefault(file.name, file)


def _paths(keys: tuple[Key, ...], before: str) -> set[str]:
    return {before + key.name for key in keys} | {
        path for key in keys for path in _paths(key.keys, f"{before}{key.name}.")
    }


def test_each_setting_of_firehose_stands_on_the_page_once() -> None:
    said = [name for row, _ in _ROW.findall(PAGE.text) for name in _SPAN.findall(row)]
    times = {setting: sum(fnmatchcase(setting, name) for name in said) for setting in SETTINGS}

    assert {each: number for each, number in times.items() if number != 1} == {}
    assert [name for name in said if not any(fnmatchcase(setting, name) for setting in SETTINGS)] == []


def test_each_key_that_the_page_names_is_one_of_a_dagger_file() -> None:
    known = {path for kind in sinks.names() for path in _paths(sinks.load(kind).KEYS, f"{kind}.")}
    known |= {"forward.filter", "forward.fields", "forward.payload", "sinks.md", "dialect.md"}
    named = {
        key
        for _, here in _ROW.findall(PAGE.text)
        for span in _SPAN.findall(here)
        for key in _KEY.findall(span)
    }

    assert named - known == set()


@pytest.mark.parametrize("number", range(len(PAGE.blocks("yaml"))))
async def test_each_example_of_the_page_is_a_dagger_that_nothing_is_wrong_with(number: int) -> None:
    [dagger] = parse(HEAD + PAGE.blocks("yaml")[number], PAGE.name)

    judged = await spec_check.validate(
        "spec", dagger.name, fill_defaults(dagger.name, dagger.spec), fleet(), Checks(), now=NOW
    )

    assert [violation.description for violation in judged.violations] == []
