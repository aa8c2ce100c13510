"""Executors that a dagger takes of its cluster: defaults of the cluster, bounds, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from daggers.v1 import spec_pb2

from daggerspec import executors
from daggerspec.executors import ExecutorShare

SPARK = "spark://spark:7077"


def says(**values: int) -> spec_pb2.Executors:
    return spec_pb2.Executors(**values)


def cluster(spark_master: str = SPARK, **values: Any) -> spec_pb2.Cluster:
    return spec_pb2.Cluster(name="prod", spark_master=spark_master, **values)


@pytest.mark.parametrize(
    ("own", "default", "share"),
    [
        ({}, {}, ExecutorShare(2, 1, 1024)),
        ({"count": 4}, {}, ExecutorShare(4, 1, 1024)),
        ({"cores_max": 8, "cores": 4}, {}, ExecutorShare(2, 4, 1024)),
        ({}, {"cores_max": 6, "cores": 3, "memory_mib": 2048}, ExecutorShare(2, 3, 2048)),
        ({"count": 5}, {"cores_max": 2}, ExecutorShare(5, 1, 1024)),
        ({"cores_max": 6}, {"count": 2, "cores": 2}, ExecutorShare(3, 2, 1024)),
        ({"cores": 4}, {"cores_max": 2}, ExecutorShare(1, 4, 1024)),
    ],
)
def test_a_dagger_takes_what_it_says_then_what_its_cluster_says_then_two_cores(
    own: dict[str, int], default: dict[str, int], share: ExecutorShare
) -> None:
    assert executors.resolve(says(**own), says(**default)) == share


def test_what_is_filled_in_for_a_launch_is_resolved_and_stays_when_resolved_again() -> None:
    spec = spec_pb2.DaggerSpec(executors=says(cores=2))
    executors.fill(spec, cluster(executors=says(cores_max=8)))

    assert spec.executors == says(count=4, cores=2, memory_mib=1024)
    assert executors.resolve(spec.executors, says()).cores_max == 8


def test_state_has_a_partition_for_each_core_and_one_where_there_are_no_executors() -> None:
    spec, local = spec_pb2.DaggerSpec(executors=says(cores_max=8)), spec_pb2.Cluster(spark_master="local[2]")

    assert [executors.partitions(each, cluster()) for each in (spec, spec_pb2.DaggerSpec())] == [8, 2]
    assert executors.partitions(spec, local) == 1


@pytest.mark.parametrize("where", [cluster("local[2]", executors=says(count=1)), cluster()])
def test_nothing_is_filled_in_where_nobody_says_anything_or_nothing_has_executors(
    where: spec_pb2.Cluster,
) -> None:
    spec = spec_pb2.DaggerSpec()
    executors.fill(spec, where)

    assert not spec.HasField("executors")


@pytest.mark.parametrize(
    ("own", "where", "found"),
    [
        ({"count": 2}, cluster(), []),
        ({"count": 2}, cluster("local[2]"), [("executors", "NO_EXECUTORS_THERE")]),
        ({"cores_max": 3, "count": 2, "cores": 2}, cluster(), [("executors.cores_max", "OUT_OF_RANGE")]),
        (
            {"cores_max": 2},
            cluster(executors=says(cores=4)),
            [("executors.cores_max", "OUT_OF_RANGE")],
        ),
        ({"memory_mib": 100}, cluster(), [("executors.memory_mib", "OUT_OF_RANGE")]),
        (
            {"count": 9, "memory_mib": 4096},
            cluster(executor_limits=says(cores_max=8, memory_mib=2048)),
            [
                ("executors.memory_mib", "EXECUTORS_OVER_LIMIT"),
                ("executors.cores_max", "EXECUTORS_OVER_LIMIT"),
            ],
        ),
    ],
)
def test_what_cannot_be_given_is_refused_by_its_field(
    own: dict[str, int], where: spec_pb2.Cluster, found: list[tuple[str, str]]
) -> None:
    wrong = executors.violations("executors", says(**own), where)

    assert [(each.field, each.reason) for each in wrong] == found


@pytest.mark.parametrize(
    ("where", "found"),
    [
        (cluster(executors=says(count=2), executor_limits=says(count=4)), []),
        (
            cluster(executor_limits=says(cores_max=1)),
            [("cluster.executors.cores_max", "EXECUTORS_OVER_LIMIT")],
        ),
        (cluster("local[2]", executors=says(count=2)), [("cluster.executors", "NO_EXECUTORS_THERE")]),
        (cluster("", executor_limits=says(count=2)), [("cluster.executor_limits", "NO_EXECUTORS_THERE")]),
    ],
)
def test_defaults_of_a_cluster_are_within_its_own_bounds(
    where: spec_pb2.Cluster, found: list[tuple[str, str]]
) -> None:
    wrong = executors.cluster_violations("cluster", where)

    assert [(each.field, each.reason) for each in wrong] == found


@pytest.mark.parametrize(
    ("where", "urls"),
    [
        (cluster(), ("http://spark:8080",)),
        (cluster(spark_web_url="http://pages:1/"), ("http://pages:1",)),
        (cluster("spark://a:7077,b:7077"), ("http://a:8080", "http://b:8080")),
        (cluster("local[2]"), ()),
        (cluster("yarn"), ()),
    ],
)
def test_each_standalone_master_has_its_pages_on_its_host(
    where: spec_pb2.Cluster, urls: tuple[str, ...]
) -> None:
    assert executors.web_urls(where) == urls
