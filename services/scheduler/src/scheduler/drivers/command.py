"""The spark-submit command line of a job, and the environment it runs in. Pure.

Master, memory, hosts and directories depend on the place, and stand here. The query is the runtime's, and
equal wherever it runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeAlias

from daggers.v1 import spec_pb2
from google.protobuf.message import Message

from chassis import paths
from chassis.egress import proxies
from daggerspec import executors, podlabels, rundir
from daggerspec.catalogue import UnresolvedName
from daggerspec.limits import MIN_HEAP_MIB
from daggerspec.master import Manager, Master, parse, violations
from daggerspec.protobuf import children
from scheduler.drivers import own_pod
from scheduler.drivers.own_pod import OwnPod
from scheduler.drivers.spark_properties import OF_EXECUTORS

# (job, Spark master) -> command line and environment of a driver. Raises: UnresolvedName.
Command: TypeAlias = Callable[[spec_pb2.JobSpec, str], tuple[Sequence[str], Mapping[str, str]]]

# Whatever else stands in our environment (SPARK_SUBMIT_OPTS, JAVA_TOOL_OPTIONS, PYTHONPATH …) would change
# what runs, or hand a driver secrets that are not its own. The last three say where a cluster is.
ALLOWED: Final = ("HOME", "JAVA_HOME", "LOGNAME", "USER", "HADOOP_CONF_DIR", "YARN_CONF_DIR", "KUBECONFIG")
# What `python -m runtime.appcds_home` puts into a Spark home: Spark's classes as they are in memory.
ARCHIVE: Final = "classes.jsa"
# Up to here the simplest collector takes the least time and memory, and its pauses stay short.
_SMALL_HEAP_MIB: Final = 2048
# A JVM that lives for a second, to print the command line of the next.
_LAUNCHER_OPTIONS: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
# A Java that says nothing before it has a layout for it; the one that it starts, where one is known.
_QUIET_JAVA: Final = Path(__file__).with_name("java_home")
_LOCAL: Final = "local[2]"
_OWN_JAVA: Final = "DAGGERS_DRIVER_JAVA_HOME"
_NEVER_A_SECRET: Final = ("JAVA_", "JDK_", "LD_", "PATH", "PYSPARK_", "PYTHON", "SPARK_", "_JAVA_")


@dataclass(frozen=True, slots=True)
class Installation:
    """Paths of the parts of a driver on this host."""

    spark_home: Path
    """The pyspark package."""
    python: Path
    """The interpreter that the driver's Python half and its workers run."""
    runtime: Path
    """The runtime's __main__.py."""
    log4j: Path
    """The JVM's logging configuration."""
    prepared: Path | None = None
    """A Spark home from which drivers start faster, as `python -m runtime.appcds_home` builds it."""
    properties: Path | None = None
    """The administrator's Spark properties."""
    own_properties: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The properties there, which may have secrets."""
    shared_checkpoints: bool = False
    """True when checkpoints are where executors on other hosts see them, as the administrator says."""
    own_pod: OwnPod | None = None
    """The pod that drivers run in."""


def spark_submit(
    job: spec_pb2.JobSpec, url: str, installation: Installation, *, closed: bool = False
) -> list[str]:
    """Build the command line of a launch. Raises: UnresolvedName when nothing can run on this master.

    closed: to other users of its host: it has no pages, and its ports ask for a secret of its own.
    """
    own = ["--spec", str(Path(job.run_dir) / rundir.SPEC), "--generation", str(job.generation)]
    return [*_submission(job, url, installation, ui=not closed, closed=closed), *own]


def spare(job: spec_pb2.JobSpec, url: str, installation: Installation, scheduler: str) -> list[str]:
    """Build the command line of a spare of this scheduler, PID:START_TICKS. Its job has the directory to wait
    in, and what every driver is given. Raises: as `spark_submit`.
    """
    return [*_submission(job, url, installation), "--spare", scheduler]


def replay(job: spec_pb2.JobSpec, python: Path) -> list[str]:
    """Build the command line of an attempt of a replay, but for the replay's own arguments."""
    return [str(python), "-P", "-m", "runtime.replay", *_attempt(job)]


def computing_replay(
    job: spec_pb2.JobSpec, url: str, installation: Installation, *, closed: bool = False
) -> list[str]:
    """Build the command line of an attempt that computes the query. Raises: UnresolvedName when nothing can
    run on
    this master.

    closed: as of `spark_submit`.
    """
    return [*_submission(job, url, installation, ui=False, closed=closed), "--replay", *_attempt(job)]


def _attempt(job: spec_pb2.JobSpec) -> list[str]:
    return ["--run-dir", job.run_dir, "--generation", str(job.generation)]


def replay_environment(job: spec_pb2.JobSpec, inherited: Mapping[str, str]) -> dict[str, str]:
    """Build the environment of an attempt of a replay: as a driver's, without what Spark and Java want."""
    passed = {name: inherited[name] for name in ("HOME", "USER") if name in inherited}
    temporary = str(Path(job.run_dir) / rundir.TEMPORARY)
    fixed = {"LC_ALL": "C.UTF-8", "PYTHONSAFEPATH": "1", "PYTHONUNBUFFERED": "1", "TMPDIR": temporary}
    # One heap for all threads of librdkafka and Arrow: 263 MiB in place of 285 for 100,000 rows.
    fixed |= {"MALLOC_ARENA_MAX": "1", "ARROW_DEFAULT_MEMORY_POOL": "system"}
    return {**passed, **proxies.proxy_variables(inherited), **secrets(job, inherited), **fixed, "TZ": "UTC"}


def has_both_compilers(spec: spec_pb2.DaggerSpec) -> bool:
    """Tell whether the JVM of a launch is given its slow compiler, too: where each record becomes a row,
    which Spark's own code hands on and which no generated code adds up (ADR 160).
    """
    return spec.HasField("forward")


def preview(job: spec_pb2.JobSpec, url: str, installation: Installation, scheduler: str) -> list[str]:
    """Build the command line of a process that previews for this scheduler. Arguments: as of `spare`."""
    return [*_submission(job, url, installation, ui=False), "--preview", scheduler]


def _submission(
    job: spec_pb2.JobSpec, url: str, installation: Installation, *, ui: bool = True, closed: bool = False
) -> list[str]:
    """Build the command line up to the runtime's arguments. ui: with Spark's pages. closed: as of
    `spark_submit`. Raises: UnresolvedName.
    """
    master = _parse_master(url)
    if not (master.on_loopback or installation.shared_checkpoints):
        raise UnresolvedName(
            "CHECKPOINTS_NOT_SHARED",
            f"executors of Spark master {url!r} keep state in checkpoints, and run on other hosts: set"
            " DAGGERS_SCHEDULER_CHECKPOINT_ROOT to a directory or URI that all of them see",
        )
    if "," in job.run_dir and not master.is_local:
        hint = "executors of its Spark master divide it there: set another DAGGERS_SCHEDULER_STATE_DIR"
        raise UnresolvedName("STATE_DIR_UNUSABLE", f"the state directory has a comma, and {hint}")
    memory_mib = max(job.spec.driver_memory_mib, MIN_HEAP_MIB)
    run_dir = Path(job.run_dir)
    home = _spark_home(master, installation)
    java_options = [
        f"-Dlog4j2.configurationFile={installation.log4j.as_uri()}",
        f"-Djava.io.tmpdir={run_dir / rundir.TEMPORARY}",
        "-Dfile.encoding=UTF-8",
        "-Duser.timezone=UTC",
        # A JVM without memory must die, so that it is seen and relaunched.
        "-XX:+ExitOnOutOfMemoryError",
        # Spark's classes need 130 MiB: collecting at 21, 35 and 60 finds nothing and takes 0.1 s of a start.
        "-XX:MetaspaceSize=160m",
        # Counters for `jps` and the like, which the JVM looks at 20 times a second: a tenth of an idle one.
        "-XX:-UsePerfData",
    ]
    if not has_both_compilers(job.spec):
        # Spark generates its code anew for every batch: both compilers took a third of the CPU time of the
        # first 4,000,000 records (22 of 70 s); this one alone takes 2 s, and nearly none of the next.
        java_options.append("-XX:TieredStopAtLevel=1")
    if memory_mib <= _SMALL_HEAP_MIB:
        java_options.append("-XX:+UseSerialGC")
    if home == installation.prepared:
        java_options.append(f"-XX:SharedArchiveFile={home / ARCHIVE}")
    settings = {
        "spark.driver.extraJavaOptions": paths.spark_options(java_options),
        # Scratch space goes with the launch; a killed driver would leave it behind in /tmp. Spark takes it
        # for a list with commas: here it is told from the working directory, which is the launch's.
        "spark.local.dir": rundir.TEMPORARY if master.is_local else str(run_dir / rundir.TEMPORARY),
        "spark.sql.warehouse.dir": str(run_dir / rundir.TEMPORARY / "warehouse"),
        # Loopback only, see below; its port stands in driver.json. Small: a driver runs for months.
        "spark.ui.enabled": str(ui).lower(),
        "spark.ui.port": "0",
        "spark.ui.retainedJobs": "50",
        "spark.ui.retainedStages": "50",
        "spark.ui.retainedTasks": "1000",
        "spark.sql.ui.retainedExecutions": "20",
    }
    if master.is_local:
        # TCP waits 40 ms at each turn of a short talk between the JVM and a Python worker (Nagle's algorithm
        # and delayed acknowledgements). A path may have 107 bytes, so it is told from the working directory,
        # which is the launch's.
        settings["spark.python.unix.domain.socket.enabled"] = "true"
        settings["spark.python.unix.domain.socket.dir"] = rundir.TEMPORARY
    if not master.is_local:
        settings |= _executor_settings(job.spec, master, installation)
        settings |= _pod_settings(job, master, installation)
    if master.is_local and closed:
        settings["spark.authenticate"] = "true"  # Spark makes the secret; one of executors is their cluster's
    if master.on_loopback:
        settings["spark.driver.host"] = "127.0.0.1"
        settings["spark.driver.bindAddress"] = "127.0.0.1"
    command = [str(home / "bin" / "spark-submit")]
    command += ["--master", master.url, "--deploy-mode", "client"]
    if installation.properties is not None:
        command += [
            "--properties-file",
            str(installation.properties),
        ]  # --conf comes before what stands there
    command += ["--name", f"daggers.{job.dagger}.{job.generation}", "--driver-memory", f"{memory_mib}m"]
    for name, value in settings.items():
        command += ["--conf", f"{name}={value}"]
    return [*command, _resource(installation.runtime)]


def _executor_settings(
    spec: spec_pb2.DaggerSpec, master: Master, installation: Installation
) -> dict[str, str]:
    """Return Spark's settings of a dagger's executors; none where only the administrator's properties say
    something of them. Without any a standalone master gives the first application all cores.
    """
    if not spec.HasField("executors") and installation.own_properties.keys() & OF_EXECUTORS:
        return {}
    share = executors.resolve(spec.executors, spec_pb2.Executors())
    settings = {
        "spark.executor.cores": str(share.cores),
        "spark.executor.memory": f"{share.memory_mib}m",
        "spark.dynamicAllocation.enabled": "false",
    }
    if master.manager is Manager.STANDALONE:
        return settings | {"spark.cores.max": str(share.cores_max)}
    return settings | {"spark.executor.instances": str(share.count)}


def _pod_settings(job: spec_pb2.JobSpec, master: Master, installation: Installation) -> dict[str, str]:
    """Return Spark's settings of executors that are pods: labels by which a killed driver's are found, and
    the pod that owns them, if it is in their namespace. A ConfigMap would stay behind as well, and hold
    nothing: drivers have no folder of configuration.
    """
    if master.manager is not Manager.KUBERNETES:
        return {}
    labels = podlabels.of_launch(job)
    settings = {f"{podlabels.PROPERTY}{label}": value for label, value in labels.items()}
    settings["spark.kubernetes.executor.disableConfigMap"] = "true"
    owner, own = installation.own_pod, installation.own_properties
    namespace = own.get("spark.kubernetes.namespace", "default")
    if owner is not None and owner.namespace == namespace and own_pod.PROPERTY not in own:
        settings[own_pod.PROPERTY] = owner.name
    return settings


def _resource(path: Path) -> str:
    """Return a file as spark-submit takes it: it reads a path as a URI, with what % and # mean in one."""
    uri = path.as_uri()
    return str(path) if uri == f"file://{path}" else uri


def environment(
    job: spec_pb2.JobSpec, url: str, installation: Installation, inherited: Mapping[str, str]
) -> dict[str, str]:
    """Build the environment of a launch: an allow-list, and the variables its SecretRefs name.

    Raises: UnresolvedName for what is no Spark master.
    """
    master = _parse_master(url)
    passed = {name: inherited[name] for name in ALLOWED if name in inherited} | secrets(job, inherited)
    passed |= proxies.proxy_variables(inherited)
    path = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"]
    fixed = {
        "LC_ALL": "C.UTF-8",
        "PATH": ":".join([str(installation.python.parent), *path]),
        "PYSPARK_PYTHON": str(installation.python),
        # The runtime's folder must not come before the standard library: it may have a secrets.py.
        "PYTHONSAFEPATH": "1",
        "PYTHONUNBUFFERED": "1",
        "SPARK_HOME": str(_spark_home(master, installation)),
        "SPARK_LAUNCHER_OPTS": _LAUNCHER_OPTIONS,
        "TMPDIR": str(Path(job.run_dir) / rundir.TEMPORARY),
        "TZ": "UTC",
    }
    if master.on_loopback:
        fixed["SPARK_LOCAL_IP"] = "127.0.0.1"
    if "JAVA_HOME" in passed:
        fixed |= {"JAVA_HOME": str(_QUIET_JAVA), _OWN_JAVA: passed["JAVA_HOME"]}
    return passed | fixed


def beside(url: str) -> str:
    """Return the master of what computes beside the scheduler, also for a cluster whose executors are
    elsewhere.
    """
    master = parse(url) if url else None
    return url if master is not None and master.is_local else _LOCAL


def secrets(message: Message, inherited: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that a message's SecretRefs name, as far as they may be passed on and are
    there.
    """
    names = {name for name in secret_variables(message) if not name.startswith(_NEVER_A_SECRET)}
    return {name: inherited[name] for name in sorted(names) if name in inherited}


def secret_variables(message: Message) -> set[str]:
    """Return the names of the environment variables that the SecretRefs anywhere in a message have."""
    if isinstance(message, spec_pb2.SecretRef):
        return {message.env} if message.env else set()
    return {name for child in children(message) for name in secret_variables(child)}


def _parse_master(url: str) -> Master:
    """Parse the Spark master that a driver is submitted to. Raises: UnresolvedName."""
    if not url:
        raise UnresolvedName("NO_SPARK_MASTER", "its cluster has no Spark master: register one for it")
    if (master := parse(url)) is not None:
        return master
    [wrong] = violations("spark_master", url)
    raise UnresolvedName(wrong.reason, f"Spark master {url!r} {wrong.description}: register another")


def _spark_home(master: Master, installation: Installation) -> Path:
    """Return the prepared home where it serves: YARN and Kubernetes want the whole of PySpark's, to
    ship it.
    """
    if installation.prepared is not None and master.manager in (Manager.LOCAL, Manager.STANDALONE):
        return installation.prepared
    return installation.spark_home
