"""`gateway.proto` stays what clients import, though its services stand in files of their own."""

from importlib import import_module
from pathlib import Path

from google.protobuf import descriptor_pb2
from grpc_tools import protoc

PROTO_ROOT = Path(__file__).parents[1]
NAMES = Path(__file__).with_name("names_of_gateway.txt").read_text().split()
"""What the two modules had when all services stood in one file."""
OTHERS = """\
syntax = "proto3";
package others;
import "daggers/v1/gateway.proto";
message Kept {
  daggers.v1.Dagger dagger = 1;
  daggers.v1.ListAlertsResponse alerts = 2;
  daggers.v1.Row row = 3;
  daggers.v1.Finding finding = 4;
}
"""


def test_clients_find_every_name_where_it_was() -> None:
    missing = [
        name
        for name in NAMES
        if not hasattr(import_module(f"daggers.v1.{name.split('.')[0]}"), name.split(".")[1])
    ]

    assert missing == []


def test_the_types_of_every_service_are_where_they_were() -> None:
    module = PROTO_ROOT / "gen" / "daggers" / "v1" / "gateway_pb2_grpc.pyi"
    typed = module.read_text()
    stubs = [name.split(".")[1] for name in NAMES if name.endswith(("Stub", "Servicer", "_to_server"))]

    assert len(stubs) == 12
    assert [name for name in stubs if f"{name} as {name}" not in typed] == []


def test_a_schema_of_others_that_imports_the_gateway_has_all_its_messages(tmp_path: Path) -> None:
    (tmp_path / "others.proto").write_text(OTHERS)
    include = Path(protoc.__file__).parent / "_proto"
    out = tmp_path / "set.pb"
    flags = [f"-I{tmp_path}", f"-I{PROTO_ROOT}", f"-I{include}", f"--descriptor_set_out={out}"]

    assert protoc.main(["protoc", *flags, "others.proto"]) == 0
    assert len(descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes()).file[0].message_type) == 1
