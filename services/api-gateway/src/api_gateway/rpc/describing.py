"""Describe a stream as a query sees it. Pure."""

from __future__ import annotations

import re

import grpc
from daggers.v1 import gateway_pb2, spec_pb2

from api_gateway.validate import comments
from chassis.errors import ApiError
from daggerspec.catalogue import UnresolvedName
from daggersql import Table
from daggersql.described import columns
from daggersql.templates import write_templates
from fleet import Fleet
from fleet.fold.answers import about
from fleet.fold.resolve import FleetCatalogue


def describe_stream(of: spec_pb2.Stream, fleet: Fleet) -> gateway_pb2.DescribeStreamResponse:
    """Build the description of a stream's columns, by the rules of the SQL check.

    Raises: ApiError where its schemas contradict each other.
    """
    try:
        table = Table(of.name, FleetCatalogue(fleet).message(of.message), of.time_field)
    except UnresolvedName as error:
        metadata = {**about("stream", of.name), "message": of.message}
        code = grpc.StatusCode.FAILED_PRECONDITION
        raise ApiError(code, error.reason, error.detail, metadata) from error
    described, truncated = columns(table)
    comment_of = comments.by_field(fleet.messages[of.message].value.files.file)
    templates = write_templates(re.sub(r"\W", "_", of.name), described, of.sensitive)
    answer = gateway_pb2.DescribeStreamResponse(
        stream=of,
        truncated=truncated,
        first_query=templates[0].sql,
        templates=[gateway_pb2.QueryTemplate(title=one.title, sql=one.sql) for one in templates],
    )
    for field_ in described:
        column = answer.columns.add(
            path=field_.path,
            type=field_.type,
            protobuf_type=field_.protobuf_type,
            is_repeated=field_.repeated,
            example=field_.example,
            comment=_comment(comment_of.get(field_.field, ""), field_.unread),
        )
        for name, number in field_.enum_values:
            column.enum_values.add(name=name, number=number)
    return answer


def _comment(comment: str, unread: str) -> str:
    """Join the reason why a field cannot be read and its comment."""
    return " ".join(filter(None, (f"Cannot be read: {unread}." if unread else "", comment)))
