"""The command line and the environment of a driver, and the limits of a host."""

import os
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import pytest
from daggers.v1 import spec_pb2

from daggerspec.catalogue import UnresolvedName
from scheduler.drivers import own_pod
from scheduler.drivers.command import (
    Installation,
    beside,
    computing_replay,
    environment,
    secret_variables,
    spark_submit,
)
from scheduler.drivers.own_pod import OwnPod
from scheduler.drivers.spark_properties import OF_EXECUTORS, read
from scheduler.leader import capacity
from scheduler.leader.capacity import MEASURED_EVERY_S, HostMemory
from scheduler.parts import room
from scheduler.settings import SchedulerSettings

HERE = Installation(
    spark_home=Path("/venv/pyspark"),
    python=Path("/venv/bin/python"),
    runtime=Path("/venv/runtime/__main__.py"),
    log4j=Path("/venv/log4j2.properties"),
)
JOB = spec_pb2.JobSpec(
    dagger="d",
    generation=42,
    run_dir="/state/runs/d/42",
    spec={"driver_memory_mib": 900},
    platform={"secret_properties": {"sasl.password": {"env": "KAFKA_PASSWORD"}}},
    sinks=[
        {"sink": {"influx": {"address": {"token": {"env": "INFLUX_TOKEN"}}}}},
        {"sink": {"influx": {"address": {"token": {"file": "/run/secrets/token"}}}}},
    ],
)


SHARED = replace(HERE, shared_checkpoints=True)


def submit(
    job: spec_pb2.JobSpec = JOB, master: str = "local[2]", installation: Installation = SHARED
) -> list[str]:
    return spark_submit(job, master, installation)


def test_the_command_names_the_launch_and_ends_with_the_runtime_and_its_arguments() -> None:
    command = submit()

    assert command[:3] == ["/venv/pyspark/bin/spark-submit", "--master", "local[2]"]
    assert command[command.index("--name") + 1] == "daggers.d.42"
    runtime = ["/venv/runtime/__main__.py", "--spec", "/state/runs/d/42/spec.pb", "--generation", "42"]
    assert command[-5:] == runtime


def test_an_attempt_that_computes_is_a_spark_application_beside_the_scheduler() -> None:
    command = computing_replay(JOB, beside("spark://elsewhere:7077"), HERE)

    assert command[:3] == ["/venv/pyspark/bin/spark-submit", "--master", "local[2]"]
    words = ["--replay", "--run-dir", "/state/runs/d/42", "--generation", "42"]
    assert command[-6:] == ["/venv/runtime/__main__.py", *words]
    assert beside("local[3]") == "local[3]"


def test_a_launch_that_is_closed_to_other_users_has_no_pages_and_a_secret_for_its_ports() -> None:
    local, cluster = (spark_submit(JOB, url, SHARED, closed=True) for url in ("local[2]", "spark://h:7077"))

    assert "spark.ui.enabled=false" in local
    assert "spark.authenticate=true" in local
    assert "spark.ui.enabled=false" in cluster
    assert not any("spark.authenticate" in word for word in (*cluster, *submit()))
    assert "spark.ui.enabled=true" in submit()


def test_the_jvm_of_a_forwarding_has_both_compilers() -> None:
    forwards = spec_pb2.JobSpec(run_dir="/r", spec={"forward": {}})

    assert "-XX:TieredStopAtLevel=1" in " ".join(submit())
    assert "-XX:TieredStopAtLevel" not in " ".join(submit(forwards))


@pytest.mark.parametrize(("asked", "given"), [(900, "900m"), (100, "480m")])
def test_a_driver_gets_the_memory_it_asks_for_or_the_least_spark_takes(asked: int, given: str) -> None:
    command = submit(spec_pb2.JobSpec(run_dir="/r", spec={"driver_memory_mib": asked}))

    assert command[command.index("--driver-memory") + 1] == given


@pytest.mark.parametrize(("asked", "simplest"), [(0, True), (2048, True), (8192, False)])
def test_a_small_heap_gets_the_simplest_collector(asked: int, simplest: bool) -> None:
    command = submit(spec_pb2.JobSpec(run_dir="/r", spec={"driver_memory_mib": asked}))

    assert any("-XX:+UseSerialGC" in word for word in command) == simplest


@pytest.mark.parametrize(("master", "own"), [("local[2]", True), ("spark://127.0.0.1:7077", False)])
def test_workers_in_the_launchs_own_directory_talk_over_sockets_in_it(master: str, own: bool) -> None:
    assert ("spark.python.unix.domain.socket.dir=tmp" in submit(master=master)) == own


@pytest.mark.parametrize(
    ("master", "loopback"),
    [
        ("local", True),
        ("local[*]", True),
        ("spark://127.0.0.1:7077", True),
        ("spark://localhost:7077", True),
        ("spark://master:7077", False),
        ("yarn", False),
        ("k8s://https://127.0.0.1:6443", False),  # its executors have addresses of their own
    ],
)
def test_a_driver_binds_to_loopback_when_everything_else_is_there(master: str, loopback: bool) -> None:
    bound = "spark.driver.bindAddress=127.0.0.1" in submit(master=master)

    assert bound == loopback
    assert ("SPARK_LOCAL_IP" in environment(JOB, master, HERE, {})) == loopback


@pytest.mark.parametrize(
    ("master", "reason"),
    [
        ("", "NO_SPARK_MASTER"),
        ("yarn-client", "INVALID_ADDRESS"),
        ("k8s://https://h:1 --conf x=y", "INVALID_ADDRESS"),
        ("local-cluster[1,1,1024]", "INVALID_ADDRESS"),
        ("local[2] --conf spark.driver.extraJavaOptions=x", "INVALID_ADDRESS"),
        ("spark://host", "INVALID_ADDRESS"),
        ("local[0]", "INVALID_ADDRESS"),
        ("local[10000]", "INVALID_ADDRESS"),
    ],
)
def test_a_master_that_cannot_be_submitted_to_is_refused(master: str, reason: str) -> None:
    with pytest.raises(UnresolvedName) as raised:
        submit(master=master)

    assert raised.value.reason == reason


@pytest.mark.parametrize("master", ["spark://a:7077,b:7077", "yarn", "k8s://https://h:6443", "k8s://h:6443"])
def test_a_driver_of_any_cluster_runs_on_this_host(master: str) -> None:
    command = submit(master=master)

    assert command[1:5] == ["--master", master, "--deploy-mode", "client"]


@pytest.mark.parametrize("master", ["spark://master:7077", "yarn", "k8s://https://h:6443"])
def test_executors_on_other_hosts_need_checkpoints_that_they_see(master: str) -> None:
    with pytest.raises(UnresolvedName, match="set DAGGERS_SCHEDULER_CHECKPOINT_ROOT") as raised:
        submit(master=master, installation=HERE)

    assert raised.value.reason == "CHECKPOINTS_NOT_SHARED"


def test_the_administrators_properties_come_after_what_daggers_sets() -> None:
    command = submit(installation=replace(HERE, properties=Path("/etc/daggers/spark.properties")))

    assert command[command.index("--properties-file") + 1] == "/etc/daggers/spark.properties"
    assert command.index("--properties-file") < command.index("--conf") < command.index(str(HERE.runtime))


def executor_properties(
    master: str, says: spec_pb2.Executors | None = None, own: Mapping[str, str] = MappingProxyType({})
) -> dict[str, str]:
    """Return what a launch sets of its executors, where the administrator's file sets `own`."""
    job = spec_pb2.JobSpec()
    job.CopyFrom(JOB)
    if says is not None:
        job.spec.executors.CopyFrom(says)
    command = spark_submit(job, master, replace(SHARED, own_properties=own))
    pairs = [text.partition("=") for text in command if text.startswith("spark.")]
    return {name: value for name, _, value in pairs if name in OF_EXECUTORS}


def pod_properties(master: str, installation: Installation = SHARED) -> dict[str, str]:
    """Return what a launch sets of pods."""
    job = spec_pb2.JobSpec(dagger="daily", generation=7, run_dir="/r", checkpoint_root="/c/daily-3")
    command = spark_submit(job, master, installation)
    pairs = [text.partition("=") for text in command if text.startswith("spark.kubernetes.")]
    return {name: value for name, _, value in pairs}


def test_pods_of_executors_say_whose_they_are() -> None:
    properties, label = pod_properties("k8s://https://h:6443"), "spark.kubernetes.executor.label.daggers/"

    assert (properties[f"{label}dagger"], properties[f"{label}generation"]) == ("daily", "7")
    assert re.fullmatch("[0-9a-f]{16}", properties[f"{label}lease"])
    assert pod_properties("yarn") == pod_properties("local[2]") == {}


def test_no_config_map_is_made_that_a_killed_driver_would_leave_behind() -> None:
    assert pod_properties("k8s://https://h:6443")["spark.kubernetes.executor.disableConfigMap"] == "true"


def test_pods_of_executors_belong_to_the_pod_of_their_driver_unless_the_administrator_names_another() -> None:
    namespace = {"spark.kubernetes.namespace": "daggers"}
    own = replace(SHARED, own_pod=OwnPod("scheduler-0", "daggers"), own_properties=namespace)
    elsewhere = replace(own, own_properties={})
    another = replace(own, own_properties=namespace | {own_pod.PROPERTY: "another"})
    outside = replace(own, own_pod=None)

    owners = [
        pod_properties(master, each).get(own_pod.PROPERTY)
        for master, each in [
            ("k8s://https://h:6443", own),
            ("k8s://https://h:6443", elsewhere),
            ("k8s://https://h:6443", another),
            ("k8s://https://h:6443", outside),
            ("yarn", own),
        ]
    ]

    assert owners == ["scheduler-0", None, None, None, None]


@pytest.mark.parametrize(
    ("hosts", "host_name", "found"),
    [
        ("# Kubernetes-managed hosts file.\n", "scheduler-0", OwnPod("scheduler-0", "daggers")),
        ("# Kubernetes-managed hosts file (host network).\n", "node-7", None),
        ("# Kubernetes-managed hosts file.\n", "s" * 63, None),
        ("127.0.0.1 localhost\n", "laptop", None),
    ],
    ids=["a pod", "on the network of its node", "a name that may be cut", "no pod"],
)
def test_the_own_pod_is_found_where_its_name_is_the_hosts(
    hosts: str, host_name: str, found: OwnPod | None, tmp_path: Path
) -> None:
    account = tmp_path / "var/run/secrets/kubernetes.io/serviceaccount"
    account.mkdir(parents=True)
    (tmp_path / "etc").mkdir()
    (account / "namespace").write_text("daggers")
    (tmp_path / "etc/hosts").write_text(f"{hosts}127.0.0.1\tlocalhost\n10.0.0.7\t{host_name}\n")

    assert own_pod.find(host_name, tmp_path) == found


def test_no_own_pod_is_found_without_an_account_that_tells_its_namespace(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/hosts").write_text("# Kubernetes-managed hosts file.\n")

    assert own_pod.find("scheduler-0", tmp_path) is None


def test_nobody_takes_all_of_a_cluster_by_saying_nothing() -> None:
    each = {
        "spark.executor.cores": "1",
        "spark.executor.memory": "1024m",
        "spark.dynamicAllocation.enabled": "false",
    }

    assert executor_properties("spark://master:7077") == each | {"spark.cores.max": "2"}
    assert executor_properties("yarn") == each | {"spark.executor.instances": "2"}
    assert executor_properties("local[2]") == {}


def test_executors_of_the_administrators_file_hold_until_a_dagger_or_cluster_says_something() -> None:
    own = {"spark.cores.max": "8"}
    says = spec_pb2.Executors(count=3, cores=2, memory_mib=2048)

    assert executor_properties("spark://master:7077", own=own) == {}
    assert executor_properties("spark://master:7077", says, own) == {
        "spark.executor.cores": "2",
        "spark.executor.memory": "2048m",
        "spark.dynamicAllocation.enabled": "false",
        "spark.cores.max": "6",
    }


def test_an_administrators_file_is_read_in_all_forms_of_one(tmp_path: Path) -> None:
    file = tmp_path / "spark.properties"
    file.write_text(
        "# spark.a 1\n\nspark.cores.max   8\n  spark.executor.memory=2g \nspark.yarn.queue: etl\nspark.b\n"
    )

    assert read(file) == {
        "spark.cores.max": "8",
        "spark.executor.memory": "2g",
        "spark.yarn.queue": "etl",
        "spark.b": "",
    }
    assert read(None) == {}


@pytest.mark.parametrize(
    ("master", "home"),
    [("local[2]", "/prepared"), ("spark://localhost:7077", "/prepared"), ("yarn", "/venv/pyspark")],
)
def test_a_driver_starts_from_the_prepared_home_unless_its_cluster_ships_the_whole(
    master: str, home: str
) -> None:
    installation = replace(SHARED, prepared=Path("/prepared"))

    command = submit(master=master, installation=installation)

    shares = any("-XX:SharedArchiveFile=/prepared/classes.jsa" in word for word in command)
    assert (command[0], shares) == (f"{home}/bin/spark-submit", home == "/prepared")
    assert environment(JOB, master, installation, {})["SPARK_HOME"] == home


def test_where_a_cluster_is_reaches_the_driver() -> None:
    where = {"HADOOP_CONF_DIR": "/h", "YARN_CONF_DIR": "/y", "KUBECONFIG": "/k"}

    made = environment(JOB, "yarn", HERE, where | {"HADOOP_OPTS": "-Dx"})

    assert {
        name: value for name, value in made.items() if name.startswith(("HADOOP", "YARN", "KUBE"))
    } == where


def test_no_secret_stands_in_the_command() -> None:
    assert not [word for word in submit() if "PASSWORD" in word or "TOKEN" in word]


def test_the_environment_is_an_allow_list_and_the_secrets_the_job_names() -> None:
    inherited = {
        "HOME": "/root",
        "JAVA_HOME": "/java",
        "PATH": "/somewhere",
        "KAFKA_PASSWORD": "p",
        "INFLUX_TOKEN": "t",
        "OTHER_TOKEN": "o",
        "SPARK_SUBMIT_OPTS": "-Dx",
        "JAVA_TOOL_OPTIONS": "-Dy",
        "SPARK_CONF_DIR": "/conf",
        "PYSPARK_DRIVER_PYTHON": "ipython",
        "PYTHONPATH": "/evil",
        "DAGGERS_SCHEDULER_STATE_DIR": "/state",
    }

    made = environment(JOB, "local[1]", HERE, inherited)

    assert {name: made[name] for name in made if name in inherited and name != "PATH"} == {
        "HOME": "/root",
        "JAVA_HOME": made["JAVA_HOME"],
        "KAFKA_PASSWORD": "p",
        "INFLUX_TOKEN": "t",
    }
    assert made["DAGGERS_DRIVER_JAVA_HOME"] == "/java"
    assert os.access(Path(made["JAVA_HOME"]) / "bin" / "java", os.X_OK)
    assert (made["LC_ALL"], made["PYSPARK_PYTHON"], made["SPARK_HOME"]) == (
        "C.UTF-8",
        "/venv/bin/python",
        "/venv/pyspark",
    )
    assert made["PATH"].split(":")[0] == "/venv/bin"
    assert made["TMPDIR"] == "/state/runs/d/42/tmp"


@pytest.mark.parametrize("name", ["SPARK_SUBMIT_OPTS", "JAVA_TOOL_OPTIONS", "LD_PRELOAD", "PYTHONSTARTUP"])
def test_a_secret_reference_cannot_change_what_runs(name: str) -> None:
    job = spec_pb2.JobSpec(run_dir="/r", sinks=[{"sink": {"influx": {"address": {"token": {"env": name}}}}}])

    made = environment(job, "local[1]", HERE, {name: "value"})

    assert secret_variables(job) == {name}
    assert name not in made


@pytest.mark.parametrize(("memory_mib", "drivers"), [(16_384, 6), (4_096, 1), (1_000, 1)])
def test_as_many_drivers_fit_as_memory_takes_but_always_one(memory_mib: int, drivers: int) -> None:
    assert capacity.max_drivers(memory_mib, 768) == drivers


@pytest.mark.parametrize(
    ("told", "drivers", "memory_mib"),
    [({}, 6, 14_336), ({"max_drivers": 9}, 9, 20_736), ({"max_drivers": 2}, 2, 14_336),
     ({"memory_mib": 5_000}, 6, 5_000)],
)  # fmt: skip
def test_who_says_how_many_drivers_there_may_be_has_memory_for_them(
    told: dict[str, int], drivers: int, memory_mib: int, tmp_path: Path
) -> None:
    settings = SchedulerSettings(**{"kafka_bootstrap_servers": "k:1", "state_dir": tmp_path, **told})

    assert room(settings, 14_336) == (drivers, memory_mib)


def test_a_hosts_room_is_measured_as_it_changes_and_a_busy_moment_passes() -> None:
    now, free, ours = 0.0, 16_384, 0
    memory = HostMemory(768, available=lambda: free, resident=lambda: ours, clock=lambda: now)

    def after(seconds: float) -> int:
        nonlocal now
        now += seconds
        return memory.mib()

    begun = after(0)
    free, ours = 14_384, 2_000  # a driver has grown: what others take is the same
    grown = [after(MEASURED_EVERY_S) for _ in range(3)]
    free = 2_000  # somebody else works
    busy = [after(MEASURED_EVERY_S) for _ in range(3)]
    free = 20_384
    idle = [after(MEASURED_EVERY_S) for _ in range(3)]
    unmeasured = after(MEASURED_EVERY_S / 2)

    assert (begun, grown) == (14_336, [14_336] * 3)
    assert busy == [14_336, 2_304, 2_304]  # one measurement is a peak, and one driver may always run
    assert (idle, unmeasured) == ([2_304, 20_336, 20_336], 20_336)


@pytest.mark.parametrize(
    ("files", "stat", "mib"),
    [
        (
            {"memory.max": 8_000, "memory.current": 6_000},
            {"active_file": 1_000, "inactive_file": 3_000},
            6_000,
        ),
        (
            {"memory/memory.limit_in_bytes": 8_000, "memory/memory.usage_in_bytes": 6_000},
            {"total_active_file": 0, "total_inactive_file": 1_000, "inactive_file": 0},
            3_000,
        ),
    ],
)
def test_of_a_control_group_the_page_cache_can_be_had(
    tmp_path: Path, files: dict[str, int], stat: dict[str, int], mib: int
) -> None:
    (tmp_path / "memory").mkdir()
    for name, size in files.items():
        (tmp_path / name).write_text(f"{size * capacity.MIB}\n")
    lines = "".join(f"{name} {size * capacity.MIB}\n" for name, size in stat.items())
    (tmp_path / next(iter(files))).with_name("memory.stat").write_text(lines)

    assert capacity.available_mib(tmp_path) == mib


def test_this_host_has_memory() -> None:
    assert capacity.available_mib() > 0
