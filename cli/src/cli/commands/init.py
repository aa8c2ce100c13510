"""`daggers init`: a dagger file to begin with, from a registered stream."""

from pathlib import Path
from typing import Annotated

import typer
from daggers.v1 import spec_pb2
from google.protobuf import descriptor_pb2

from cli.errors import RefusedError
from cli.group import group
from cli.session import Session, command

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
sql: |
  SELECT {key_column}count(1) AS num_of_records,
         TUMBLE_END(rowtime, INTERVAL '60' SECOND) AS window_timestamp
  FROM `data_stream`
  GROUP BY TUMBLE(rowtime, INTERVAL '60' SECOND){group_key}
sinks:
  - {{influx: {{measurement: {name}}}}}
trigger: 1s
emit: final
"""


app = group()


@command(app, "init", example="daggers init bookings bookings_per_minute")
def init(
    session: Session,
    stream: Annotated[str, typer.Argument(help="A registered stream.")],
    name: Annotated[str, typer.Argument(help="Name of the dagger; default: STREAM_per_minute.")] = "",
    file: Annotated[
        Path | None, typer.Option("--file", "-f", help="Where to write; default: NAME.yaml.")
    ] = None,
    team: Annotated[str, typer.Option(help="Team that owns it.")] = "my_team",
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it is there.")] = False,
) -> None:
    """Write a dagger file that counts the records of a stream per minute, to be changed from there."""
    with session.connect() as gateway:
        registered = {each.name: each for each in gateway.streams()}
        if stream not in registered:
            known = ", ".join(sorted(registered)) or "none yet"
            raise RefusedError(f"there is no stream {stream}; registered are: {known}", reason="NOT_FOUND")
        schema = gateway.schema(registered[stream].message)
    name = name or f"{stream}_per_minute"
    text = draft(registered[stream], columns(schema, registered[stream].message), name, team)
    target = file or Path(f"{name}.yaml")
    if target.exists() and not force:
        raise RefusedError(f"{target} is there already: name another by --file, or replace it by --force")
    try:
        target.write_text(text, encoding="utf-8")
    except OSError as error:
        raise RefusedError(f"{target} cannot be written: {error.strerror}") from error
    document = {"file": str(target), "name": name, "stream": stream}
    session.out.done(document, f"wrote {target}: change it, then `daggers apply {target} --wait`")


def draft(stream: spec_pb2.Stream, fields: list[FieldType], name: str, team: str) -> str:
    """The text of a dagger file over a stream whose message has these fields."""
    single = [field for field in fields if field.label != FieldType.LABEL_REPEATED]
    by_type = sorted(
        (field for field in single if field.type in KEY_TYPES), key=lambda field: KEY_TYPES.index(field.type)
    )
    key = by_type[0].name if by_type else None
    return TEMPLATE.format(
        message=stream.message,
        columns=", ".join(field.name for field in fields),
        name=name,
        team=team,
        cluster=stream.cluster,
        stream=stream.name,
        key_column=f"`{key}` AS tag_{key}, " if key else "",
        group_key=f", `{key}`" if key else "",
    )


def columns(schema: spec_pb2.Schema, message: str) -> list[FieldType]:
    """The top-level fields of a message."""
    for file in schema.files.file:
        prefix = f"{file.package}." if file.package else ""
        for kind in file.message_type:
            if f"{prefix}{kind.name}" == message:
                return list(kind.field)
            for nested in kind.nested_type:
                if f"{prefix}{kind.name}.{nested.name}" == message:
                    return list(nested.field)
    return []
