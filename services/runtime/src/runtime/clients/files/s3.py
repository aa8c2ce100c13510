"""The files of a table in a bucket of S3: a staged file is an upload that only the driver completes.

An upload that nobody completed is seen by nobody, so there is nothing to move. A manifest is put on the
condition that there is none; a server that does not know the condition is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, Final

import boto3
import pyarrow as pa
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError, SSLError
from daggers.v1 import spec_pb2

from chassis.egress.addresses import AddressRefused
from runtime.clients import egress, handshake, secrets
from runtime.clients.files import Seen
from runtime.errors import INTERNAL, JobError, TemporaryError, external, user
from runtime.hiding import hide

_PROBED: Final = "_daggers/probe"
_GONE: Final = ("NoSuchUpload", "NoSuchKey", "404")
_DENIED: Final = (
    "AccessDenied", "AccountProblem", "AllAccessDisabled", "ExpiredToken", "InvalidAccessKeyId",
    "InvalidToken", "SignatureDoesNotMatch", "401", "403", "Forbidden",
)  # fmt: skip
_MISSING: Final = ("NoSuchBucket", "InvalidBucketName", "PermanentRedirect")
_TAKEN: Final = ("PreconditionFailed", "412")


class S3Files:
    """A table's prefix in a bucket."""

    def __init__(self, client: Callable[[], Any], where: str, bucket: str, prefix: str) -> None:
        """`client` makes one that may be kept; `where` is the server, as a person knows it."""
        self._client, self._where = client, where
        self._bucket, self._prefix = bucket, prefix

    @classmethod
    def of(cls, sink: spec_pb2.ResolvedSink) -> S3Files:
        """Those of a sink. Raises: JobError where its secret is not there."""
        asked = sink.sink.parquet
        made_of = spec_pb2.ResolvedSink(egress=sink.egress if sink.HasField("egress") else None)
        made_of.sink.parquet.CopyFrom(asked)
        made_of.sink.parquet.ClearField("table")
        key = made_of.SerializeToString(deterministic=True)
        bucket, _, folder = asked.location.removeprefix("s3://").partition("/")
        prefix = f"{folder}/{asked.table}" if folder else asked.table
        return cls(lambda: _client(key), f"S3 at {asked.endpoint}", bucket, prefix)

    def stage(self, name: str, content: pa.Buffer) -> str:
        """Upload a file, and leave the upload open."""
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

    def staged(self, prefix: str) -> Iterator[tuple[str, str]]:
        """Uploads that are open."""
        with self._errors() as client:
            pages = client.get_paginator("list_multipart_uploads")
            asked = pages.paginate(Bucket=self._bucket, Prefix=f"{self._prefix}/")
            uploads = [upload for page in asked for upload in page.get("Uploads", ())]
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
        """Put an object where there is none."""
        with self._errors() as client:
            try:
                client.put_object(Bucket=self._bucket, Key=self._key(name), Body=content, IfNoneMatch="*")
            except ClientError as error:
                if _code(error) in _TAKEN:
                    return False
                raise
        return True

    def get(self, name: str) -> bytes | None:
        """What stands in an object."""
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
        """What is below a prefix, up to the next part."""
        prefix = f"{self._key(folder)}/" if folder else f"{self._prefix}/"
        with self._errors() as client:
            pages = client.get_paginator("list_objects_v2")
            listed = list(pages.paginate(Bucket=self._bucket, Prefix=prefix, Delimiter="/"))
        below = [folder["Prefix"].rstrip("/") for page in listed for folder in page.get("CommonPrefixes", ())]
        below += [file["Key"] for page in listed for file in page.get("Contents", ())]
        return sorted(name.removeprefix(prefix) for name in below)

    def files(self, folder: str) -> list[Seen]:
        """The objects below a prefix, up to the next part."""
        prefix = f"{self._key(folder)}/"
        with self._errors() as client:
            pages = client.get_paginator("list_objects_v2")
            listed = list(pages.paginate(Bucket=self._bucket, Prefix=prefix, Delimiter="/"))
        files = [file for page in listed for file in page.get("Contents", ())]
        return [Seen(file["Key"].removeprefix(prefix), file["Size"], file["LastModified"]) for file in files]

    def probe(self) -> None:
        """Put an object that is there. Raises: JobError (USER) where a second one takes its place."""
        if self.put_once(_PROBED, b"?") and self.put_once(_PROBED, b"?"):
            text = f"{self._where} has no conditional writes: batches cannot be committed there once."
            raise user("SINK_CANNOT_COMMIT", text)

    def _key(self, name: str) -> str:
        return f"{self._prefix}/{name}"

    @contextmanager
    def _errors(self) -> Iterator[Any]:
        """The client; what it raises is told as what it means."""
        try:
            yield self._client()
        except (BotoCoreError, ClientError) as error:
            raise self._meaning(error) from None

    def _meaning(self, error: Exception) -> JobError:
        if isinstance(error, ClientError):
            code = _code(error)
            if code in _DENIED:
                _client.cache_clear()  # its secret may be another now
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
            return handshake.untrusted_here(self._where)
        return TemporaryError("SINK_UNAVAILABLE", f"{self._where} does not answer ({type(error).__name__}).")


def _code(error: ClientError) -> str:
    return str(error.response.get("Error", {}).get("Code", ""))


@lru_cache(maxsize=8)
def _client(resolved: bytes) -> Any:
    """A client, kept by its process. Raises: JobError for a secret that is not there."""
    sink = spec_pb2.ResolvedSink.FromString(resolved)
    asked = sink.sink.parquet
    name, _, secret = secrets.resolve(asked.credentials, asked.endpoint).partition(":")
    hide(secret)
    rules = sink.egress if sink.HasField("egress") else None
    return client(asked.endpoint, asked.region, name, secret, rules)


def client(endpoint: str, region: str, name: str, secret: str, rules: spec_pb2.Egress | None) -> Any:
    """A client of a server; `rules` hold its connections, where no administrator registered the server."""
    proxy = egress.proxy_of(endpoint)
    made = boto3.session.Session().client(
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
            proxies=dict.fromkeys(("http", "https"), proxy) if proxy else {},  # else botocore asks by itself
            request_checksum_calculation="when_required",
            response_checksum_validation="when_required",
        ),
    )
    if rules is not None:
        # botocore takes no pools: they are given to the manager that its connections come from.
        session = made._endpoint.http_session  # noqa: SLF001 - as above
        manager = session._get_proxy_manager(proxy) if proxy else session._manager  # noqa: SLF001
        by_proxy = endpoint if proxy else ""
        manager.pool_classes_by_scheme = egress.checked(rules, f"S3 at {endpoint}", by_proxy)
    return made
