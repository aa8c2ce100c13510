"""Client of the gateway whose errors are those of the command, with what to do next."""

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

import grpc
from daggers.v1 import gateway_pb2

import daggerclient as client
from cli.errors import CliError, MisusedError, RefusedError, UnreachableError
from cli.framework.flag_names import flag
from cli.output.json_views.answers import to_json
from daggerclient.findings import finding, headline

TODO = {
    client.Silence.NOBODY: (
        "start the stack by `daggers local up`, or name another gateway by --gateway HOST:PORT"
    ),
    client.Silence.LATE: "try again",
    client.Silence.NO_TLS: "name it without https://",
    client.Silence.UNTRUSTED: "DAGGERS_CA_FILE names the authority that signed it",
    client.Silence.CLOSED: "if it speaks TLS, name it https://HOST:PORT",
}
SETTINGS = {"address": "--gateway ", "ca_file": "DAGGERS_CA_FILE: ", "token_file": "DAGGERS_TOKEN_FILE: "}
NO_FLAGS: Mapping[str, str] = MappingProxyType({})


class Gateway(client.Client):
    """Connection to api-gateway, open inside a `with` block. Raises: CliError.

    flags: the flag that fills each field of a request; refusals name it in place of the field.
    """

    def __init__(
        self,
        address: str,
        *,
        ca_file: Path | None = None,
        token_file: Path | None = None,
        token: Callable[[], str] | None = None,
        flags: Mapping[str, str] = NO_FLAGS,
        warn: Callable[[str], None] = lambda _: None,
        patience_s: float = client.PATIENCE_S,
        proxy: str | None = None,
    ) -> None:
        self._flags = flags
        try:
            super().__init__(
                address,
                ca_file=ca_file,
                token_file=token_file,
                token=token,
                warn=warn,
                patience_s=patience_s,
                proxy=proxy,
            )
        except client.SettingError as error:
            raise in_words(error) from error

    def explain_error(self, error: client.ClientError) -> CliError:
        """Convert an error of the client to one of the command."""
        return in_words(error, self._flags)


def in_words(error: client.ClientError, flags: Mapping[str, str] = NO_FLAGS) -> CliError:
    """Convert an error of the client to one of the command; fields are named by their flags."""
    match error:
        case client.OutcomeUnknownError():
            shows = f"`daggers get {error.name}` shows whether it did"
            look = shows if error.name else "look before you ask again"
            detail = {"address": error.address, "request_id": error.request_id}
            return UnreachableError(f"{error.message}; {look}", reason=error.reason, detail=detail)
        case client.UnreachableError(silence=client.Silence() as silence):
            detail = {"address": error.address, "cause": error.cause}
            return UnreachableError(f"{error.message}: {TODO[silence]}", reason=error.reason, detail=detail)
        case client.UnreachableError():
            return UnreachableError(error.message, reason=error.reason, detail={"address": error.address})
        case client.RefusedError():
            return _refusal(error, flags)
        case client.NotReachedError():
            return _not_reached(error)
        case client.SettingError():
            return MisusedError(f"{SETTINGS[error.setting]}{error.message}")
        case client.InvalidFileError():
            return RefusedError(error.message, reason=error.reason, findings=error.findings)
        case _:
            return CliError(error.message, reason=error.reason)


def _refusal(error: client.RefusedError, flags: Mapping[str, str]) -> RefusedError:
    detail = {"code": error.code.name, "request_id": error.request_id}
    if error.code is grpc.StatusCode.UNAUTHENTICATED:
        todo = "DAGGERS_TOKEN_FILE must name a file with a token of its own"
        if "oidc_issuer" in error.metadata:
            todo = f"`daggers login` makes you known, or {todo}"
        return RefusedError(f"{error.message}: {todo}", reason=error.reason, detail=detail)
    findings = [
        {**document, "field": flag(document["field"], flags)} for document in map(finding, error.violations)
    ]
    message = headline(findings) if findings else error.message
    return RefusedError(message, reason=error.reason, findings=findings, detail=detail)


def _not_reached(error: client.NotReachedError) -> RefusedError:
    """Convert the end of a wait to an error with the phase, and the newest error of the dagger."""
    dagger, findings = error.dagger, []
    sentence = f"{error.message}; `daggers logs {dagger.name}` may say why"
    if dagger.HasField("last_error"):
        last = to_json(dagger.last_error)
        sentence = f"{error.message}: {last['detail'] or last['reason']}"
        findings = [{"code": last["reason"], "field": last["domain"], "message": last["detail"]}]
    if version := dagger.last_good_version:
        sentence += f"; `daggers rollback {dagger.name} --to {version}` goes back to what ran"
    phase = gateway_pb2.Phase.Name(dagger.phase)
    detail = {"phase": phase, "dagger": to_json(dagger)}
    return RefusedError(sentence, reason=error.reason, findings=findings, detail=detail)
