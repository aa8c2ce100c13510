"""`daggers init`: a dagger file to begin with, from a registered stream."""

from pathlib import Path
from typing import Annotated

import typer
from daggers.v1 import spec_pb2
from google.protobuf import descriptor_pb2

from cli.errors import RefusedError
from cli.framework.group import group
from cli.framework.session import Session, command

FieldType = descriptor_pb2.FieldDescriptorProto
KEY_TYPES = (
    FieldType.TYPE_ENUM,
    FieldType.TYPE_STRING,
    FieldType.TYPE_BOOL,
    FieldType.TYPE_INT32,
    FieldType.TYPE_INT64,
)
TEMPLATE = """\
# {message}: {columns}
name: {name}
team: {team}
cluster: {cluster}                  # where Spark runs
streams:
  - {{table: data_stream, stream: {stream}, watermark_delay: 5s, idle_timeout: 10s, start: latest}}
{does}trigger: 1s
emit: final
"""
COUNTS = """\
sql: |
  SELECT {key_column}count(1) AS num_of_records,
         TUMBLE_END(rowtime, INTERVAL '60' SECOND) AS window_timestamp
  FROM `data_stream`
  GROUP BY TUMBLE(rowtime, INTERVAL '60' SECOND){group_key}
sinks:
  - {{influx: {{measurement: {name}}}}}
"""
FORWARDS = """\
forward:                            # every record by itself; in place of sql
  # filter: fare > 0                # which records; without it all
  fields:                           # column: expression; without fields every field
{fields}sinks:
  - {{kafka: {{topic: {name}}}}}
"""


app = group()


@command(app, "init", example="daggers init bookings bookings_per_minute")
def init(
    session: Session,
    stream: Annotated[str, typer.Argument(help="Name of a registered stream.")],
    name: Annotated[
        str, typer.Argument(help="Name of the dagger; default: STREAM_per_minute, or STREAM_forwarded.")
    ] = "",
    file: Annotated[
        Path | None,
        typer.Option(
            "--file",
            "-f",
            writable=True,
            allow_dash=True,
            help="File to write; default: NAME.yaml. `-`: standard output.",
        ),
    ] = None,
    forward: Annotated[
        bool, typer.Option("--forward", help="Forward each record, in place of counting records.")
    ] = False,
    team: Annotated[str, typer.Option(help="Team that owns it.")] = "my_team",
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it is there.")] = False,
) -> None:
    """Count its records per minute, or forward each with --forward."""
    with session.connect() as gateway:
        registered = {stream.name: stream for stream in gateway.streams()}
        if stream not in registered:
            names = ", ".join(sorted(registered)) or "none yet"
            raise RefusedError(f"there is no stream {stream}; registered are: {names}", reason="NOT_FOUND")
        schema = gateway.schema(registered[stream].message)
    name = name or (f"{stream}_forwarded" if forward else f"{stream}_per_minute")
    fields = columns(schema, registered[stream].message)
    text = draft(registered[stream], fields, name, team, forward=forward)
    target = file or Path(f"{name}.yaml")
    if session.out.is_standard_output(target):
        session.out.line(text.removesuffix("\n"))
        return
    if target.exists() and not force:
        raise RefusedError(f"{target} is there already: name another by --file, or replace it by --force")
    try:
        target.write_text(text, encoding="utf-8")
    except OSError as error:
        raise RefusedError(
            f"{target} cannot be written: {error.strerror}; `--file -` is standard output"
        ) from error
    document = {"file": str(target), "name": name, "stream": stream}
    session.out.print_result(document, f"wrote {target}: change it, then `daggers apply {target} --wait`")


def draft(
    stream: spec_pb2.Stream, fields: list[FieldType], name: str, team: str, *, forward: bool = False
) -> str:
    """Build a dagger file over a stream whose message has these fields."""
    return TEMPLATE.format(
        message=stream.message,
        columns=", ".join(field.name for field in fields),
        name=name,
        team=team,
        cluster=stream.cluster,
        stream=stream.name,
        does=_forwards(fields, name) if forward else _counts(fields, name),
    )


def _forwards(fields: list[FieldType], name: str) -> str:
    return FORWARDS.format(
        name=name, fields="".join(f"    {field_.name}: '`{field_.name}`'\n" for field_ in fields)
    )


def _counts(fields: list[FieldType], name: str) -> str:
    single = [field for field in fields if field.label != FieldType.LABEL_REPEATED]
    by_type = sorted(
        (field for field in single if field.type in KEY_TYPES), key=lambda field: KEY_TYPES.index(field.type)
    )
    key = by_type[0].name if by_type else None
    return COUNTS.format(
        name=name,
        key_column=f"`{key}` AS tag_{key}, " if key else "",
        group_key=f", `{key}`" if key else "",
    )


def columns(schema: spec_pb2.Schema, message: str) -> list[FieldType]:
    """Return the top-level fields of a message."""
    for file in schema.files.file:
        prefix = f"{file.package}." if file.package else ""
        for kind in file.message_type:
            if f"{prefix}{kind.name}" == message:
                return list(kind.field)
            for nested in kind.nested_type:
                if f"{prefix}{kind.name}.{nested.name}" == message:
                    return list(nested.field)
    return []
