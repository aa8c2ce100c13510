"""Where files may be written, and how often the batches of files are due."""

from __future__ import annotations

from datetime import timedelta

import pytest
from daggers.v1 import spec_pb2
from hypothesis import given
from hypothesis import strategies as st

from daggerspec import folders
from daggerspec.defaults import fill_defaults

FILES = spec_pb2.Sink(parquet=spec_pb2.ParquetSink(location="/data", table="t"))
LOG = spec_pb2.Sink(log=spec_pb2.LogSink())


@pytest.mark.parametrize(
    "text", ["data", "/", "/data/../etc", "/data//x", "/data/", "//data", "/data/x{team}", "/a, b", "/a\nb"]
)
def test_a_setting_that_names_no_folder_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="must"):
        folders.parse(text)


@given(
    words=st.lists(st.text("/ab ,\"'ü=%#$;:\\", min_size=1).map(lambda text: f"/{text.strip()}"), max_size=4)
)
def test_folders_of_any_name_are_listed_and_read_again(words: list[str]) -> None:
    assert folders.split_words(folders.as_list(words)) == tuple(words)


def test_a_list_as_it_was_always_written_is_read_as_before() -> None:
    assert folders.split_words("/a, /b,,http://x ,") == ("/a", "/b", "http://x")
    assert folders.split_words("") == ()
    with pytest.raises(ValueError, match="quotes"):
        folders.split_words('"/a')


def test_a_team_has_its_own_folders_and_those_of_all() -> None:
    named = folders.parse("/data/{team}/files, /all")

    assert folders.of("pricing", named) == ("/data/pricing/files", "/all")
    assert folders.of("", named) == ("/all",)


@pytest.mark.parametrize(
    ("path", "held"), [("/all", "/all"), ("/all/x/y", "/all"), ("/allx", None), ("/", None), ("/data", None)]
)
def test_a_path_is_in_a_folder_or_is_it(path: str, held: str | None) -> None:
    assert folders.holding(("/data/x", "/all"), path) == held


@pytest.mark.parametrize(
    ("sinks", "trigger"), [([FILES], 60), ([FILES, FILES], 60), ([FILES, LOG], 1), ([LOG], 1), ([], 1)]
)
def test_batches_are_few_and_large_where_all_sinks_write_files(
    sinks: list[spec_pb2.Sink], trigger: int
) -> None:
    assert fill_defaults("d", spec_pb2.DaggerSpec(sinks=sinks)).trigger.ToTimedelta() == timedelta(
        seconds=trigger
    )


def test_who_says_how_often_batches_are_due_is_heard() -> None:
    asked = spec_pb2.DaggerSpec(sinks=[FILES])
    asked.trigger.FromSeconds(5)

    assert fill_defaults("d", asked).trigger.ToTimedelta() == timedelta(seconds=5)
