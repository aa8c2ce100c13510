"""What an answer has to say for a row to count as taken."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from daggerspec import success

F = descriptor_pb2.FieldDescriptorProto


def _answer() -> Any:
    file = descriptor_pb2.FileDescriptorProto(name="a.proto", package="a", syntax="proto3")
    inner, answer = file.message_type.add(name="Inner"), file.message_type.add(name="Answer")
    status = file.enum_type.add(name="Status")
    for number, name in enumerate(("UNKNOWN", "DONE")):
        status.value.add(name=name, number=number)
    inner.field.add(name="code", number=1, label=F.LABEL_OPTIONAL, type=F.TYPE_STRING)
    fields = (
        ("success", F.TYPE_BOOL), ("count", F.TYPE_INT64), ("share", F.TYPE_DOUBLE), ("raw", F.TYPE_BYTES),
    )  # fmt: skip
    for number, (name, kind) in enumerate(fields, 1):
        answer.field.add(name=name, number=number, label=F.LABEL_OPTIONAL, type=kind)
    answer.field.add(
        name="inner", number=5, label=F.LABEL_OPTIONAL, type=F.TYPE_MESSAGE, type_name=".a.Inner"
    )
    answer.field.add(name="status", number=6, label=F.LABEL_OPTIONAL, type=F.TYPE_ENUM, type_name=".a.Status")
    answer.field.add(name="many", number=7, label=F.LABEL_REPEATED, type=F.TYPE_STRING)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("a.Answer"))


Answer = _answer()
SAID = Answer(success=True, count=-3, share=0.5, inner={"code": "a && b"}, status=1)


@pytest.mark.parametrize(
    ("text", "is_so"),
    [
        ("response.success == true", True),
        ("response.success == false", False),
        ("response.success != false && response.count == -3", True),
        ("response.success == true && response.count == 3", False),
        ("response.share == 0.5&&response.status==DONE", True),
        ("response.status != DONE", False),
        ('response.inner.code == "a && b"', True),
        (" response.inner.code == 'a' ", False),
    ],
)
def test_fields_are_compared_with_constants(text: str, is_so: bool) -> None:
    assert list(success.violations("f", text, Answer.DESCRIPTOR)) == []
    assert success.holds(success.parse(text), SAID) is is_so


def test_a_field_that_is_not_set_is_what_it_is_by_default() -> None:
    assert success.holds(success.parse("response.inner.code == '' && response.status == UNKNOWN"), Answer())


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("success == true", "SYNTAX_ERROR"),
        ("response == true", "SYNTAX_ERROR"),
        ("response.success", "SYNTAX_ERROR"),
        ("response.success = true", "SYNTAX_ERROR"),
        ("response.success == true && ", "SYNTAX_ERROR"),
        ("response.success == true || response.count == 1", "SYNTAX_ERROR"),
        ("response.inner.code == 'a", "SYNTAX_ERROR"),
        ("response.success == true" + " " * 1_000, "SYNTAX_ERROR"),
        ("response.succes == true", "UNKNOWN_FIELD"),
        ("response.inner.cod == 'a'", "UNKNOWN_FIELD"),
        ("response.success == 1", "TYPE_MISMATCH"),
        ("response.count == 1.5", "TYPE_MISMATCH"),
        ("response.share == '1'", "TYPE_MISMATCH"),
        ("response.status == 1", "TYPE_MISMATCH"),
        ("response.status == GONE", "TYPE_MISMATCH"),
        ("response.inner == true", "TYPE_MISMATCH"),
        ("response.many == 'a'", "TYPE_MISMATCH"),
        ("response.count.of == 1", "TYPE_MISMATCH"),
        ("response.raw == 'a'", "TYPE_MISMATCH"),
    ],
)
def test_what_is_no_comparison_of_this_answer_is_told(text: str, reason: str) -> None:
    assert [violation.reason for violation in success.violations("f", text, Answer.DESCRIPTOR)] == [reason]
