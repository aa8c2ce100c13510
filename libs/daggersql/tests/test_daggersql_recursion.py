"""Messages that contain themselves: they end somewhere, and the plan says that they do."""

from google.protobuf import descriptor_pb2, descriptor_pool, timestamp_pb2

from daggersql import Table, check

_Field = descriptor_pb2.FieldDescriptorProto


def tree() -> Table:
    """A stream of nodes that have children: `time`, `name`, and repeated `children`."""
    node = descriptor_pb2.DescriptorProto(name="Node")
    kinds = (("time", ".google.protobuf.Timestamp"), ("name", ""), ("children", ".trees.Node"))
    for number, (name, kind) in enumerate(kinds, 1):
        node.field.add(
            name=name,
            number=number,
            type=_Field.TYPE_MESSAGE if kind else _Field.TYPE_STRING,
            type_name=kind or None,
            label=_Field.LABEL_REPEATED if name == "children" else _Field.LABEL_OPTIONAL,
        )
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
    file = descriptor_pb2.FileDescriptorProto(
        name="trees.proto", package="trees", syntax="proto3", message_type=[node],
        dependency=[timestamp_pb2.DESCRIPTOR.name],
    )  # fmt: skip
    pool.AddSerializedFile(file.SerializeToString())
    return Table("trees", pool.FindMessageTypeByName("trees.Node"), "time")


def test_a_column_that_is_cut_off_somewhere_is_warned_of() -> None:
    checked = check("SELECT name, children FROM trees", [tree()])

    assert checked.plan is not None
    assert [(found.code, found.column) for found in checked.findings] == [("RECURSIVE_MESSAGE", 14)]
    assert "trees.Node contains itself" in checked.findings[0].message


def test_what_is_not_so_deep_is_not_warned_of() -> None:
    checked = check("SELECT name, children[1].name AS first_child FROM trees", [tree()])

    assert checked.plan is not None
    assert checked.findings == ()


def test_a_field_beyond_the_depth_is_refused_with_its_place() -> None:
    path = "children[1]" + ".children[1]" * 5
    (finding,) = check(f"SELECT {path}.name AS deep FROM trees", [tree()]).findings

    assert finding.code == "UNKNOWN_FIELD"
