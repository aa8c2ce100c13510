from __future__ import annotations

import pytest

from daggerspec import master
from daggerspec.master import Manager


@pytest.mark.parametrize(
    ("url", "manager", "loopback"),
    [
        ("local", Manager.LOCAL, True),
        ("local[*]", Manager.LOCAL, True),
        ("local[9999]", Manager.LOCAL, True),
        ("spark://127.0.0.1:7077", Manager.STANDALONE, True),
        ("spark://[::1]:7077", Manager.STANDALONE, True),
        ("spark://localhost:7077,b:7077", Manager.STANDALONE, False),
        ("yarn", Manager.YARN, False),
        ("k8s://https://h:6443", Manager.KUBERNETES, False),
        ("k8s://h:6443", Manager.KUBERNETES, False),
    ],
)
def test_a_master_is_taken_apart(url: str, manager: Manager, loopback: bool) -> None:
    spark_master = master.parse(url)

    assert spark_master is not None
    assert (spark_master.url, spark_master.manager, spark_master.on_loopback) == (url, manager, loopback)
    assert list(master.violations("cluster.spark_master", url)) == []


@pytest.mark.parametrize(
    "url",
    ["local[0]", "local[10000]", "local[02]", "local[ 2]", "local[2]x", "yarn-client", "yarn://h:1",
     "spark://host", "spark://", "spark://h:1/x", "k8s://https://h", "k8s://ftp://h:1",
     "mesos://h:1", "local-cluster[1,1,1024]",
     "spark://h:1,", "spark://h:1 --conf x=y", "local\n"],
)  # fmt: skip
def test_what_is_no_master_is_refused(url: str) -> None:
    violations = list(master.violations("cluster.spark_master", url))

    assert [(violation.field, violation.reason) for violation in violations] == [
        ("cluster.spark_master", "INVALID_ADDRESS")
    ]
