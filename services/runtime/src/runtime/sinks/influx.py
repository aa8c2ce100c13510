"""The sink `influx`: each row is one point of InfluxDB (1.8 or 2.x).

Guarantee: effectively once. A point is identified by measurement, tags and time; a batch that is repeated
after a crash overwrites its own points. A row the database refuses (another field type, beyond retention) is
quarantined and the others are written; while the database is away the batch waits.
"""

from __future__ import annotations

import atexit
import json
import re
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pyarrow as pa
from daggers.v1 import spec_pb2
from daggers.v1.output_pb2 import RowCondition
from influxdb_client.client.flux_table import FluxTable
from influxdb_client.client.influxdb_client import InfluxDBClient
from influxdb_client.rest import ApiException
from influxdb_client.service.write_service import WriteService
from urllib3.exceptions import HTTPError, SSLError

from chassis.egress.addresses import AddressRefused
from chassis.logging import logger
from daggerspec.columns import Role
from daggerspec.row import Row
from daggerspec.selection import Condition, Selection
from daggerspec.sinks.influx import CAPABILITIES
from runtime.clients import bisection, handshake, influxneeds, pace
from runtime.clients.bisection import RefusalCause, Rows, sized_parts
from runtime.clients.egress import checked_pools, proxy_credentials, proxy_of
from runtime.clients.secrets import resolve
from runtime.encode import line_protocol
from runtime.encode.readback import newest
from runtime.errors import JobError, TemporaryError, external
from runtime.hiding import redact
from runtime.recent import cache_in_use
from runtime.sinks import Outcome, Source, Target

TIMEOUT_MS = 10_000
READ_RANK = 0
READ_TIMEOUT_MS = 60_000
# window_timestamp may lie ahead of now, and records of any age may be replayed
_FIRST, _LAST = datetime(1677, 9, 22, tzinfo=UTC), datetime(2262, 4, 11, tzinfo=UTC)
# Types of which equal values are one text in a tag, and which texts.
_AS_WRITTEN = {
    **dict.fromkeys(("tinyint", "smallint", "int", "bigint"), re.compile(r"0|-?[1-9][0-9]*")),
    "string": re.compile(r".+", re.DOTALL),
}
_NOT_TAGS = {"result", "table", "_start", "_stop", "_time", "_measurement"}
# Answers that speak of the lines, not of the address: part of the batch, or one line of it, is the reason.
_REFUSED = {400, 413, 422}
_DENIED = {401, 403}
_FULL: Final = re.compile(r"max-(?:series-per-database|values-per-tag) limit exceeded|cache-max-memory-size")
"""In the words of a server that has no room for more series, with the status of a wrong line."""
_STATE: Final = re.compile(
    rf"{_FULL.pattern}|timeout|no space left on device|read-only file system|too many open files"
)
"""Words of a server that are quoted where rows wait: others may quote a row, and an error is everybody's."""
_NO_POLICY: Final = "retention policy not found"
# No header of HTTP may have them.
_NO_HEADER = re.compile("[\r\n\0]|[^\x00-\xff]")
# Around the reason, which may quote anything; with 500 in the first releases of 2.
_DROPPED = re.compile(
    r"(?:(?:failure|unexpected error) writing points to database: )?partial write: .* dropped=(\d+)"
    r"(?: for database: .*)?",
    re.DOTALL,
)


def check(target: Target) -> None:
    """Raise `JobError` for rows that make no point, and when the database says no. Silence is no error."""
    with suppress(TemporaryError):
        rehearse(target, None)


def rehearse(target: Target, row: pa.RecordBatch | None) -> str:
    """Check that a batch would be taken; points cannot be taken back. Raises: JobError if none passes."""
    encoder(target).encode(target.no_rows if row is None else row)
    with suppress(_RefusedError):
        _post(target.resolved, b"")
    address = target.resolved.sink.influx.address
    api = _write_service(target.resolved.SerializeToString(deterministic=True)).api_client
    with _mapping_errors(address):
        if influxneeds.lacks_policy(api, address.bucket):
            raise influxneeds.missing_policy_error(address)
    return f"The bucket {address.bucket} takes points of these columns, as far as a question can tell."


def probe(target: Target) -> None:
    """Raise `JobError` while a request without lines gets no answer, or is not allowed."""
    with suppress(_RefusedError):
        _post(target.resolved, b"")


def open(target: Target) -> InfluxWriter:  # noqa: A001 - the name every sink has
    """Open a writer for one partition of one batch."""
    return InfluxWriter(encoder(target), target.resolved, may_refuse=target.may_refuse_all)


def encoder(target: Target) -> line_protocol.LineProtocolEncoder:
    """Return the encoder of the target's rows to lines."""
    return line_protocol.encoder(target.layout, target.resolved.sink.influx.measurement)


class InfluxWriter:
    """Writes lines in requests of a few thousand, and finds the ones that are refused."""

    def __init__(
        self, encoder: line_protocol.LineProtocolEncoder, sink: spec_pb2.ResolvedSink, *, may_refuse: bool
    ) -> None:
        """Open the writer; `may_refuse` allows that all rows are refused."""
        self._encoder = encoder
        self._sink = sink
        self._may_refuse = may_refuse
        self._pace = pace.of(sink)

    def write(self, batch: pa.RecordBatch, batch_id: int) -> Outcome:
        """Write a batch; returns the rows that are no point or that the database refused."""
        del batch_id
        lines, refusals = self._encoder.encode(batch)
        texts = [None if line is None else line.encode() for line in lines]
        most_rows, most_bytes = CAPABILITIES.max_rows or len(texts), CAPABILITIES.max_bytes or 1
        refusals += bisection.divide(
            sized_parts(texts, refusals, self._pace.max_rows(most_rows), most_bytes),
            lambda rows: self._write_lines(rows, texts),
            bisection.history_of(self._sink.SerializeToString(deterministic=True)),
            may_refuse=self._may_refuse,
        )
        return Outcome(refused=refusals)

    def finish(self) -> Outcome:
        """Refuse no more rows: all that were written are durable."""
        return Outcome()

    def _write_lines(self, rows: Rows, lines: Sequence[bytes | None]) -> RefusalCause | None:
        """Write the lines of these rows; return why the database has refused some of them."""
        self._pace.wait(len(rows))
        try:
            _post(self._sink, b"\n".join(lines[row] or b"" for row in rows))
        except _RefusedError as refused:
            are_all = refused.dropped == len(rows)
            return RefusalCause("SINK_REFUSED", refused.detail, rows=rows if are_all else None)
        return None


class _RefusedError(Exception):
    """Refusal of lines by the database: of `dropped` of them, where it gives the number."""

    def __init__(self, detail: str) -> None:
        super().__init__(detail)
        self.detail = detail
        match = _DROPPED.fullmatch(detail)
        self.dropped = int(match[1]) if match else None


def _post(sink: spec_pb2.ResolvedSink, lines: bytes, *, again: bool = True) -> None:
    """Send one request, and another one with the token as it is now where the first was denied.

    Raises: TemporaryError, _RefusedError, or JobError that says what to do.
    """
    address = sink.sink.influx.address
    api = _write_service(sink.SerializeToString(deterministic=True))
    try:
        with _mapping_errors(address):
            _, status, _ = api.post_write_with_http_info(  # type: ignore[no-untyped-call]  # the library's
                address.org, address.bucket, lines, precision="ns", content_type="text/plain; charset=utf-8"
            )
    except ApiException as answer:
        if answer.status in _DENIED and again:
            _write_service.cache_clear()  # its token may have been replaced meanwhile
            _post(sink, lines, again=False)
            return
        raise _meaning(answer, address) from None
    if not is_taken(status, lines):
        detail = (
            f"InfluxDB at {address.url} answers {status}, but not as it does when it takes points:"
            " a login page, or a proxy, may answer in its place."
        )
        raise TemporaryError("SINK_UNAVAILABLE", detail)


@contextmanager
def _mapping_errors(address: spec_pb2.InfluxAddress) -> Iterator[None]:
    """Map errors of a request, but for answers. Raises: TemporaryError for silence, or JobError."""
    try:
        yield
    except AddressRefused as why:
        raise _forbidden(address, why) from None
    except ApiException as answer:
        if isinstance(answer.__context__, SSLError):  # the library's answer of status 0
            raise handshake.untrusted_here_error(f"InfluxDB at {address.url}") from None
        raise
    except (HTTPError, OSError) as silence:
        detail = f"InfluxDB at {address.url} does not answer ({type(silence).__name__})."
        raise TemporaryError("SINK_UNAVAILABLE", detail) from None


def is_taken(status: int, lines: bytes) -> bool:
    """Check the proof that points were written: 204 of either release; 200 of 1.8 where there was no line."""
    return status == 204 or (status == 200 and not lines)


def _meaning(answer: ApiException, address: spec_pb2.InfluxAddress) -> Exception:
    """Make the error that an answer of the database means for the rows, or for the job."""
    words = _words(answer)
    influx = f"InfluxDB at {address.url}"
    if answer.status == 404:
        return external(
            "SINK_MISSING",
            f"{influx} has no bucket or database {address.bucket!r}; create it, or name another.",
            retryable=True,
        )
    if answer.status in _DENIED:
        return external(
            "SINK_DENIED",
            f"{influx} refuses to write to {address.bucket!r} with the sink's token: it answers"
            f" {answer.status}; check the secret that `token` names and its rights.",
            retryable=True,
        )
    if _NO_POLICY in words:
        return influxneeds.missing_policy_error(address)
    if (answer.status in _REFUSED or _DROPPED.fullmatch(words)) and not _FULL.search(words):
        return _RefusedError(words)
    headers: Any = answer.headers  # its stubs know none
    after = str((headers or {}).get("Retry-After", ""))
    retry_after = float(after) if after.isascii() and after.isdigit() else None
    logger().warning("influx.write_refused", server=influx, status=answer.status, why=words)
    state = _STATE.search(words)
    why = f": {state[0]}" if state else "; driver.log has its words"
    return TemporaryError("SINK_UNAVAILABLE", f"{influx} answers {answer.status}{why}.", retry_after)


def _words(answer: ApiException) -> str:
    """Return the sentence in an answer: 1.8 calls it "error", 2.x "message"."""
    try:
        body = json.loads(answer.body or "")
        words = body.get("message") or body["error"]
    except (ValueError, KeyError, AttributeError):
        words = answer.reason or f"status {answer.status}"
    return redact(str(words)).rstrip(".")


def _forbidden(address: spec_pb2.InfluxAddress, why: AddressRefused) -> JobError:
    detail = f"InfluxDB at {address.url} may not be reached: {why}. An administrator can register it."
    return external("SINK_ADDRESS_REFUSED", detail, retryable=True)


@cache_in_use
def _write_service(sink: bytes) -> WriteService:
    """Open a client, which the worker keeps between batches with its connections; it returns statuses."""
    return WriteService(  # type: ignore[no-untyped-call]  # the library's
        _client(spec_pb2.ResolvedSink.FromString(sink), TIMEOUT_MS).api_client
    )


def _client(sink: spec_pb2.ResolvedSink, timeout_ms: int) -> InfluxDBClient:
    """Open a client whose connections obey the policy of the sink's address."""
    address = sink.sink.influx.address
    secret = resolve(address.token, address.url) if address.token.WhichOneof("source") else ""
    if _NO_HEADER.search(secret):
        detail = f"The secret for {address.url} is no token: it has line breaks, or characters of no header."
        raise external("SECRET_UNUSABLE", detail, retryable=True)
    proxy = proxy_of(address.url)
    by_proxy: dict[str, Any] = {"proxy": proxy, "proxy_headers": proxy_credentials(proxy)} if proxy else {}
    client = InfluxDBClient(url=address.url, token=secret, org=address.org, timeout=timeout_ms, **by_proxy)
    if sink.HasField("egress"):
        manager = client.api_client.rest_client.pool_manager
        manager.pool_classes_by_scheme = checked_pools(
            sink.egress, f"InfluxDB at {address.url}", address.url if proxy else ""
        )
    return client


# The client's finalizer fails when it runs after the modules it needs are gone.
atexit.register(_write_service.cache_clear)


def read(source: Source, wanted: Selection) -> list[Row]:
    """Read the newest points of the measurement by their times, by Flux, which 1.8 and 2.x have."""
    with closing(_looks(source, wanted)) as looks:
        return next(looks)


def watch(source: Source, limit: int) -> Generator[list[Row]]:
    """Read the newest points again and again: none before the oldest of them is looked for any more."""
    return _looks(source, Selection(limit))


def _looks(source: Source, wanted: Selection) -> Generator[list[Row]]:
    sink = source.resolved.sink.influx
    address = sink.address
    with _client(source.resolved, READ_TIMEOUT_MS) as client:
        while True:
            try:
                tables = client.query_api().query(query(address.bucket, sink.measurement, wanted))
            except ApiException as answer:
                raise _unreadable(answer, address) from None
            except AddressRefused as why:
                raise _forbidden(address, why) from None
            except (HTTPError, OSError):
                detail = f"InfluxDB at {address.url} does not answer."
                raise TemporaryError("INFLUX_UNREACHABLE", detail) from None
            points = (row for table in tables for row in _rows(table) if wanted.wants(row))
            rows = wanted.first(newest(points))
            yield rows
            if len(rows) == wanted.limit:
                wanted = replace(wanted, since=rows[-1].time)


def query(bucket: str, measurement: str, wanted: Selection) -> str:
    """Write Flux for the points that may be wanted; with a limit for each series if Flux filters them all."""
    since = min(max(wanted.since or _FIRST, _FIRST), _LAST - timedelta(seconds=1))
    tags = [text for condition in wanted.where if (text := _equal_tag(condition))]
    before = [condition.value for condition in wanted.where if _before(condition)]
    until = min(max(min(before, default=_LAST), since + timedelta(seconds=1)), _LAST)
    are_all = len(tags) + len(before) == len(wanted.where)
    last = f" |> limit(n: {wanted.limit})" if wanted.order is None and are_all else ""
    return (
        f"from(bucket: {_flux_string(bucket)}) |> range(start: {_instant(since)}, stop: {_instant(until)})"
        f" |> filter(fn: (r) => {' and '.join([f'r._measurement == {_flux_string(measurement)}', *tags])})"
        ' |> drop(columns: ["_start", "_stop"])'
        ' |> pivot(rowKey: ["_time"], columnKey: ["_field"], valueColumn: "_value")'
        f' |> sort(columns: ["_time"], desc: true){last}'
    )


def _before(condition: Condition) -> bool:
    """Tell whether a condition bounds the time of points, as the range of a query does."""
    of_time = condition.column.role is Role.TIME and isinstance(condition.value, datetime)
    return of_time and condition.comparison == RowCondition.COMPARISON_LESS


def _equal_tag(condition: Condition) -> str:
    """Write a condition in Flux that the database's index of series answers; empty for any other.

    Of other conditions its releases disagree: what a missing field compares as, and whether it is an error.
    """
    column = condition.column
    if column.role is not Role.TAG or condition.comparison != RowCondition.COMPARISON_EQUAL:
        return ""
    if column.type not in _AS_WRITTEN or not _AS_WRITTEN[column.type].fullmatch(str(condition.value)):
        return ""
    return f"r[{_flux_string(column.key)}] == {_flux_string(str(condition.value))}"


def _instant(instant: datetime) -> str:
    return instant.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _rows(table: FluxTable) -> list[Row]:
    tags = {column.label for column in table.columns if column.group} - _NOT_TAGS
    rows = []
    for record in table.records:
        values: dict[str, Any] = record.values
        fields = {
            name: value
            for name, value in values.items()
            if name not in tags and name not in _NOT_TAGS and value is not None
        }
        time = values["_time"]
        utc = time.astimezone(UTC) if isinstance(time, datetime) else None
        rows.append(Row(utc, {tag: values[tag] for tag in sorted(tags)}, fields))
    return rows


def _unreadable(answer: ApiException, address: spec_pb2.InfluxAddress) -> Exception:
    influx = f"InfluxDB at {address.url}"
    if answer.status in _DENIED:
        return external("INFLUX_FORBIDDEN", f"{influx} does not accept the token.")
    lines = str(answer.message or answer.reason or "").strip().splitlines()
    why = lines[0] if lines else f"HTTP {answer.status}"
    return external("INFLUX_REFUSED", f"{influx} refuses the query: {why}")


def _flux_string(text: str) -> str:
    """Write a Flux string literal."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("${", "\\${").replace("\n", "\\n")
    return f'"{escaped}"'
