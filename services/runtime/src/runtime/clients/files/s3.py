"""Store the files of a table in a bucket of S3: a staged file is a multipart upload that the driver
completes.

An incomplete upload is invisible, so publishing moves nothing. A manifest is put with `If-None-Match`; a
server without conditional writes is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import boto3
import pyarrow as pa
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError, SSLError
from daggers.v1 import spec_pb2

from chassis.egress.addresses import AddressRefused
from runtime.clients import egress, handshake, secrets
from runtime.clients.files import StoredFile
from runtime.errors import INTERNAL, JobError, TemporaryError, external, user
from runtime.hiding import hide
from runtime.recent import cache_in_use

_PROBE: Final = "_daggers/probe"
_GONE: Final = ("NoSuchUpload", "NoSuchKey", "404")
_DENIED: Final = (
    "AccessDenied", "AccountProblem", "AllAccessDisabled", "ExpiredToken", "InvalidAccessKeyId",
    "InvalidToken", "SignatureDoesNotMatch", "401", "403", "Forbidden",
)  # fmt: skip
_MISSING: Final = ("NoSuchBucket", "InvalidBucketName", "PermanentRedirect")
_EXISTS: Final = ("PreconditionFailed", "412")


class S3Files:
    """Files below a prefix of a bucket."""

    def __init__(self, client: Callable[[], Any], where: str, bucket: str, prefix: str) -> None:
        """client: returns the cached client. where: the server's name for people."""
        self._client, self._where = client, where
        self._bucket, self._prefix = bucket, prefix

    @classmethod
    def of(cls, sink: spec_pb2.ResolvedSink) -> S3Files:
        """Open the files of a sink. Raises: JobError where its secret is missing."""
        sink_options = sink.sink.parquet
        made_of = spec_pb2.ResolvedSink(egress=sink.egress if sink.HasField("egress") else None)
        made_of.sink.parquet.CopyFrom(sink_options)
        made_of.sink.parquet.ClearField("table")
        key = made_of.SerializeToString(deterministic=True)
        bucket, _, folder = sink_options.location.removeprefix("s3://").partition("/")
        prefix = f"{folder}/{sink_options.table}" if folder else sink_options.table
        return cls(lambda: _client(key), f"S3 at {sink_options.endpoint}", bucket, prefix)

    def stage(self, name: str, content: pa.Buffer) -> str:
        """Upload a file, and leave the upload incomplete."""
        key, body = self._key(name), memoryview(content).tobytes()
        with self._errors() as client:
            upload = client.create_multipart_upload(Bucket=self._bucket, Key=key)["UploadId"]
            part = client.upload_part(Bucket=self._bucket, Key=key, UploadId=upload, PartNumber=1, Body=body)
        return f"{upload} {part['ETag']}"

    def publish(self, name: str, staged: str) -> None:
        """Complete an upload."""
        upload, tag = staged.split(" ")
        parts = {"Parts": [{"PartNumber": 1, "ETag": tag}]}
        with self._errors() as client:
            if self._is_there(client, name):
                return
            try:
                client.complete_multipart_upload(
                    Bucket=self._bucket, Key=self._key(name), UploadId=upload, MultipartUpload=parts
                )
            except ClientError as error:
                if _code(error) not in _GONE:
                    raise
                if not self._is_there(client, name):
                    text = f"The file {name} of {self._bucket} that a batch has written is gone."
                    raise JobError(INTERNAL, "STAGED_FILE_GONE", text, retryable=True) from None

    def _is_there(self, client: Any, name: str) -> bool:
        try:
            client.head_object(Bucket=self._bucket, Key=self._key(name))
        except ClientError as error:
            if _code(error) not in _GONE:
                raise
            return False
        return True

    def list_staged(self, prefix: str) -> Iterator[tuple[str, str]]:
        """Yield the incomplete uploads."""
        with self._errors() as client:
            pages = client.get_paginator("list_multipart_uploads")
            found_pages = pages.paginate(Bucket=self._bucket, Prefix=f"{self._prefix}/")
            uploads = [upload for page in found_pages for upload in page.get("Uploads", ())]
        for upload in uploads:
            last = upload["Key"].rpartition("/")[2]
            if last.startswith(prefix):
                yield last, f"{upload['UploadId']} {upload['Key']}"

    def discard(self, staged: str) -> None:
        """Abort an upload."""
        upload, _, key = staged.partition(" ")
        with self._errors() as client:
            try:
                client.abort_multipart_upload(Bucket=self._bucket, Key=key, UploadId=upload)
            except ClientError as error:
                if _code(error) not in _GONE:
                    raise

    def put_once(self, name: str, content: bytes) -> bool:
        """Put an object if there is none; return False where there is."""
        with self._errors() as client:
            try:
                client.put_object(Bucket=self._bucket, Key=self._key(name), Body=content, IfNoneMatch="*")
            except ClientError as error:
                if _code(error) in _EXISTS:
                    return False
                raise
        return True

    def get(self, name: str) -> bytes | None:
        """Read an object; None where there is none."""
        with self._errors() as client:
            try:
                answer = client.get_object(Bucket=self._bucket, Key=self._key(name))
                content: bytes = answer["Body"].read()
            except ClientError as error:
                if _code(error) in _GONE:
                    return None
                raise
        return content

    def names(self, folder: str) -> list[str]:
        """List the names directly below a prefix."""
        prefix = f"{self._key(folder)}/" if folder else f"{self._prefix}/"
        with self._errors() as client:
            pages = client.get_paginator("list_objects_v2")
            listed = list(pages.paginate(Bucket=self._bucket, Prefix=prefix, Delimiter="/"))
        below = [folder["Prefix"].rstrip("/") for page in listed for folder in page.get("CommonPrefixes", ())]
        below += [file["Key"] for page in listed for file in page.get("Contents", ())]
        return sorted(name.removeprefix(prefix) for name in below)

    def files(self, folder: str) -> list[StoredFile]:
        """List the objects directly below a prefix."""
        prefix = f"{self._key(folder)}/"
        with self._errors() as client:
            pages = client.get_paginator("list_objects_v2")
            listed = list(pages.paginate(Bucket=self._bucket, Prefix=prefix, Delimiter="/"))
        files = [file for page in listed for file in page.get("Contents", ())]
        return [
            StoredFile(file["Key"].removeprefix(prefix), file["Size"], file["LastModified"]) for file in files
        ]

    def probe(self) -> None:
        """Put the probe object twice. Raises: JobError (USER) where the second put replaces the first."""
        if self.put_once(_PROBE, b"?") and self.put_once(_PROBE, b"?"):
            text = f"{self._where} has no conditional writes: batches cannot be committed there once."
            raise user("SINK_CANNOT_COMMIT", text)

    def _key(self, name: str) -> str:
        return f"{self._prefix}/{name}"

    @contextmanager
    def _errors(self) -> Iterator[Any]:
        """Yield the client, and raise its errors as JobError."""
        try:
            yield self._client()
        except (BotoCoreError, ClientError) as error:
            raise self._meaning(error) from None

    def _meaning(self, error: Exception) -> JobError:
        if isinstance(error, ClientError):
            code = _code(error)
            if code in _DENIED:
                _client.cache_clear()  # its secret may have been rotated
                text = f"{self._where} refuses its credentials in {self._bucket} ({code})."
                return external("SINK_DENIED", text, retryable=True)
            if code in _MISSING:
                text = f"{self._where} has no bucket {self._bucket} ({code}): make it, or name another."
                return external("SINK_MISSING", text, retryable=True)
            return TemporaryError("SINK_UNAVAILABLE", f"{self._where} cannot take files now ({code}).")
        refused = getattr(error, "kwargs", {}).get("error")
        if isinstance(refused, AddressRefused):
            text = f"{self._where} may not be reached: {refused}."
            return external("SINK_ADDRESS_REFUSED", text, retryable=True)
        if isinstance(error, SSLError):
            return handshake.untrusted_here_error(self._where)
        return TemporaryError("SINK_UNAVAILABLE", f"{self._where} does not answer ({type(error).__name__}).")


def _code(error: ClientError) -> str:
    return str(error.response.get("Error", {}).get("Code", ""))


@cache_in_use
def _client(resolved: bytes) -> Any:
    """Return the cached client of a serialised sink. Raises: JobError for a missing secret."""
    sink = spec_pb2.ResolvedSink.FromString(resolved)
    sink_options = sink.sink.parquet
    name, _, secret = secrets.resolve(sink_options.credentials, sink_options.endpoint).partition(":")
    hide(secret)
    rules = sink.egress if sink.HasField("egress") else None
    return client(sink_options.endpoint, sink_options.region, name, secret, rules)


def client(endpoint: str, region: str, name: str, secret: str, rules: spec_pb2.Egress | None) -> Any:
    """Create a client. rules: restrict its connections; None: an administrator registered the server."""
    proxy = egress.proxy_of(endpoint)
    s3_client = boto3.session.Session().client(
        "s3",
        endpoint_url=endpoint,
        region_name=region,
        aws_access_key_id=name,
        aws_secret_access_key=secret,
        config=Config(
            connect_timeout=10,
            read_timeout=60,
            retries={"total_max_attempts": 1},
            signature_version="s3v4",
            s3={"addressing_style": "path"},
            proxies=dict.fromkeys(("http", "https"), proxy)
            if proxy
            else {},  # else botocore reads the environment itself
            request_checksum_calculation="when_required",
            response_checksum_validation="when_required",
        ),
    )
    if rules is not None:
        # botocore takes no pools: replace those of its connection manager
        session = s3_client._endpoint.http_session  # noqa: SLF001 - as above
        manager = session._get_proxy_manager(proxy) if proxy else session._manager  # noqa: SLF001
        by_proxy = endpoint if proxy else ""
        manager.pool_classes_by_scheme = egress.checked_pools(rules, f"S3 at {endpoint}", by_proxy)
    return s3_client
