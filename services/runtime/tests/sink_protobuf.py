"""Helpers of test_sink_protobuf.py and of its neighbours."""

import tempfile
from pathlib import Path

from grpc_tools import protoc

PROTOS = Path(__file__).with_name("protos")


def files() -> bytes:
    """The FileDescriptorSet of protos/sink_row.proto."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "set.pb"
        well_known = Path(protoc.__file__).parent / "_proto"
        code = protoc.main(
            ["protoc", f"-I{PROTOS}", f"-I{well_known}", "--include_imports",
             f"--descriptor_set_out={out}", "sink_row.proto"]
        )  # fmt: skip
        assert code == 0
        return out.read_bytes()


FILES = files()
