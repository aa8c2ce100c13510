"""Every message, field, enum value and method of the schema says what it is."""

from pathlib import Path

import pytest
from google.protobuf import descriptor_pb2
from grpc_tools import protoc

PROTO_ROOT = Path(__file__).parents[1]
FILES = sorted(str(path.relative_to(PROTO_ROOT)) for path in PROTO_ROOT.glob("daggers/**/*.proto"))


@pytest.fixture(scope="module")
def descriptors(tmp_path_factory: pytest.TempPathFactory) -> descriptor_pb2.FileDescriptorSet:
    out = tmp_path_factory.mktemp("proto") / "set.pb"
    include = Path(protoc.__file__).parent / "_proto"
    flags = [f"-I{PROTO_ROOT}", f"-I{include}", "--include_source_info", f"--descriptor_set_out={out}"]
    code = protoc.main(["protoc", *flags, *FILES])
    assert code == 0
    return descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes())


def test_every_element_of_the_schema_is_commented(descriptors: descriptor_pb2.FileDescriptorSet) -> None:
    bare = [
        f"{file.name}:{location.span[0] + 1}"
        for file in descriptors.file
        for location in file.source_code_info.location
        if is_element(location.path) and not location.leading_comments.strip()
    ]

    assert bare == []


def is_element(path: list[int]) -> bool:
    """Whether a source path names a message, enum, service, or one of their direct parts."""
    names = {(4,), (5,), (6,), (4, 2), (4, 3), (4, 4), (4, 8), (5, 2), (6, 2), (4, 3, 2), (4, 4, 2)}
    return len(path) % 2 == 0 and tuple(path[::2]) in names
