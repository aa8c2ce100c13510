"""Stubs for Go and Java, generated and compiled, and grpcurl: what docs/integrate.md promises to them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from importlib import resources
from pathlib import Path
from typing import Final

import pytest
from tests.documents.pages import ROOT
from tests.gateways import served

from chassis.endpoint import Endpoint
from chassis.tokenfile import read_tokens

pytestmark = [pytest.mark.long, pytest.mark.timeout(1500)]  # compilers, and registries far away

PROTO: Final = ROOT / "proto"
FILES: Final = sorted(str(file.relative_to(PROTO)) for file in PROTO.glob("daggers/**/*.proto"))
GO_PROGRAMS: Final = (
    "google.golang.org/protobuf/cmd/protoc-gen-go@v1.36.6",
    "google.golang.org/grpc/cmd/protoc-gen-go-grpc@v1.5.1",
    "github.com/fullstorydev/grpcurl/cmd/grpcurl@v1.9.3",
)
GO_USER: Final = """\
package main

import (
	"fmt"

	"example.com/mine/daggers/v1"
)

func main() {
	fmt.Println(new(daggersv1.CreateDaggerRequest).ProtoReflect().Descriptor().FullName())
}
"""
PROTOBUF_JAVA: Final = "4.31.1"
GRPC_JAVA: Final = "1.73.0"
JAVA_USER: Final = """\
public class User {
    public static void main(String[] words) {
        System.out.println(daggers.v1.CreateDaggerRequest.getDescriptor().getFullName());
        System.out.println(daggers.v1.DaggerServiceGrpc.SERVICE_NAME);
    }
}
"""
POM: Final = f"""\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>example</groupId><artifactId>mine</artifactId><version>1</version>
  <dependencies>
    <dependency>
      <groupId>com.google.protobuf</groupId><artifactId>protobuf-java</artifactId>
      <version>{PROTOBUF_JAVA}</version>
    </dependency>
    <dependency><groupId>io.grpc</groupId><artifactId>grpc-protobuf</artifactId>
      <version>{GRPC_JAVA}</version></dependency>
    <dependency><groupId>io.grpc</groupId><artifactId>grpc-stub</artifactId>
      <version>{GRPC_JAVA}</version></dependency>
  </dependencies>
</project>
"""


def run(*words: object, cwd: Path, timeout: float = 300, **more: str) -> str:
    """What a program prints; it must succeed."""
    done = subprocess.run(
        list(map(str, words)),
        cwd=cwd,
        env={**os.environ, **more},  # noqa: TID251 - a child's own
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout,
    )
    assert done.returncode == 0, f"{words}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def go(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Where Go keeps what it installs for these tests."""
    if shutil.which("go") is None:
        pytest.skip("no Go on this machine")
    folder = tmp_path_factory.mktemp("go")
    places = {
        "GOPATH": str(folder / "path"),
        "GOBIN": str(folder / "bin"),
        "GOFLAGS": "-modcacherw",
    }
    for program in GO_PROGRAMS:
        run("go", "install", program, cwd=folder, **places)
    return places


def test_stubs_for_go_compile(go: dict[str, str], tmp_path: Path) -> None:
    include = resources.files("grpc_tools") / "_proto"
    plugins = [f"--plugin={go['GOBIN']}/{name}" for name in ("protoc-gen-go", "protoc-gen-go-grpc")]
    outputs = [f"--go_out={tmp_path}", f"--go-grpc_out={tmp_path}"]
    run(
        sys.executable,
        "-m",
        "grpc_tools.protoc",
        f"-I{PROTO}",
        f"-I{include}",
        *plugins,
        *outputs,
        *FILES,
        cwd=PROTO,
    )
    (tmp_path / "main.go").write_text(GO_USER)
    run("go", "mod", "init", "example.com/mine", cwd=tmp_path, **go)
    run("go", "mod", "tidy", cwd=tmp_path, **go)

    said = run("go", "run", ".", cwd=tmp_path, **go)

    assert said == "daggers.v1.CreateDaggerRequest\n"


def test_stubs_for_java_compile(tmp_path: Path) -> None:
    if shutil.which("mvn") is None or shutil.which("javac") is None:
        pytest.skip("no Maven, or no Java compiler, on this machine")
    (tmp_path / "pom.xml").write_text(POM)
    for program in (
        f"com.google.protobuf:protoc:{PROTOBUF_JAVA}:exe:linux-x86_64",
        f"io.grpc:protoc-gen-grpc-java:{GRPC_JAVA}:exe:linux-x86_64",
    ):
        run(
            "mvn",
            "-q",
            "-B",
            "dependency:copy",
            f"-Dartifact={program}",
            "-DoutputDirectory=bin",
            cwd=tmp_path,
        )
    run("mvn", "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=lib", cwd=tmp_path)
    (protoc,) = (tmp_path / "bin").glob("protoc-[0-9]*.exe")
    (plugin,) = (tmp_path / "bin").glob("protoc-gen-*.exe")
    for program in (protoc, plugin):
        program.chmod(0o755)
    include = resources.files("grpc_tools") / "_proto"
    (source := tmp_path / "src").mkdir()
    outputs = [
        f"--plugin=protoc-gen-grpc-java={plugin}",
        f"--java_out={source}",
        f"--grpc-java_out=@generated=omit:{source}",
    ]
    run(protoc, f"-I{PROTO}", f"-I{include}", *outputs, *FILES, cwd=PROTO)
    (source / "User.java").write_text(JAVA_USER)
    files = sorted(source.rglob("*.java"))
    run("javac", "-cp", "lib/*", "-d", "classes", *files, cwd=tmp_path)

    said = run("java", "-cp", "classes:lib/*", "User", cwd=tmp_path)

    assert said == "daggers.v1.CreateDaggerRequest\ndaggers.v1.DaggerService\n"


def test_grpcurl_learns_the_api_from_the_gateway_and_calls_it(go: dict[str, str], tmp_path: Path) -> None:
    grpcurl = Path(go["GOBIN"]) / "grpcurl"
    (listed := tmp_path / "tokens").write_text("administrator:a-token-of-the-tests\n")
    token = ("-plaintext", "-H", "authorization: Bearer a-token-of-the-tests")
    endpoint = Endpoint("127.0.0.1:0", tokens=lambda: read_tokens(listed))
    with served(endpoint, f"sqlite:///{tmp_path / 'projection.db'}") as port:
        address = f"127.0.0.1:{port}"
        services = run(grpcurl, *token, address, "list", cwd=tmp_path, timeout=60)
        described = run(
            grpcurl, *token, address, "describe", "daggers.v1.DaggerService", cwd=tmp_path, timeout=60
        )
        call = (*token, "-max-time", "10", address, "daggers.v1.CatalogService/ListStreams")
        answer = run(grpcurl, *call, cwd=tmp_path, timeout=60)

    assert "daggers.v1.DaggerService" in services.split()
    assert "rpc CreateDagger" in described
    assert json.loads(answer).keys() <= {"streams", "sequence", "nextPageToken"}
