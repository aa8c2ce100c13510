"""Paths in the options of a JVM, as Spark's own launcher reads them, and paths that are refused."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from chassis import paths

ODD = "/Mü ller, a=b %41 #1 $HOME 'q' \"d\" (x)&;@+[b]{c}*?!~`t` \\w"
JAVA = shutil.which("java")


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("/a:b", "colon"),
        ("/a\nb", "control character"),
        ("/a\x7fb", "control character"),
        ("/a\u00a0b", "space"),
        ("/a😀", "U+FFFF"),
        (os.fsdecode(b"/\xff"), "UTF-8"),
    ],
)
def test_a_path_that_some_program_cannot_be_told_is_refused(path: str, why: str) -> None:
    said = paths.unusable(Path(path))

    assert said is not None
    assert why in said


def test_any_other_path_will_do() -> None:
    assert paths.unusable(Path(ODD)) is None


@pytest.mark.integration
@pytest.mark.skipif(JAVA is None, reason="there is no java on the PATH")
def test_sparks_launcher_reads_options_as_they_were(tmp_path: Path) -> None:
    spec = importlib.util.find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    home = Path(spec.origin).parent
    options = [f"-Djava.io.tmpdir={ODD}", "-Da=", "-Db=\\", "-Dc='", '-Dd="', "-De=\t", "-Df", f"-Dg={ODD}'"]
    launcher = ["org.apache.spark.launcher.Main", "org.apache.spark.deploy.SparkSubmit"]
    told = ["--conf", f"spark.driver.extraJavaOptions={paths.spark_options(options)}", "job.py"]
    done = subprocess.run(
        [str(JAVA), "-cp", f"{home}/jars/*", *launcher, *told],
        capture_output=True, check=True, timeout=120, cwd=tmp_path,
        env={"SPARK_HOME": str(home), "SPARK_SCALA_VERSION": "2.13", "PATH": os.defpath, "LC_ALL": "C.UTF-8"},
    )  # fmt: skip
    words = done.stdout.decode().split("\0")

    assert [option for option in options if option not in words] == []
