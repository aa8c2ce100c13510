"""`daggers login`, `daggers logout`: by a browser, at the provider that a gateway trusts."""

import webbrowser
from typing import Annotated

import typer
from daggers.v1 import gateway_pb2

from cli.commands.whoami import sentence
from cli.errors import RefusedError, UnreachableError
from cli.framework.gateway import Gateway
from cli.framework.group import group
from cli.framework.session import Session, command
from cli.framework.usage_errors import UsageErrors
from cli.login import device, loopback, provider
from cli.login.credentials import Login
from cli.output.json_views.answers import to_json
from daggerclient import ClientError

app = group()
Issuer = Annotated[
    str,
    typer.Option(
        "--issuer", metavar="URL", help="Identity provider; default: the one that the gateway names."
    ),
]
ClientId = Annotated[
    str, typer.Option("--client-id", metavar="ID", help="Client id of the command at that provider.")
]


@command(app, "login", example="daggers login --gateway https://daggers.example.com:50051")
def login(
    session: Session,
    by_device: Annotated[
        bool, typer.Option("--device", help="Show a code to type into a browser anywhere.")
    ] = False,
    issuer: Issuer = "",
    client_id: ClientId = "",
) -> None:
    """Open a browser of this machine; without one, or with --device, show a code.

    The login is kept for this gateway in a file that only you can read, and renews itself as long as the
    provider allows.
    """
    address = session.address()
    trusted = _provider(session, address, issuer, client_id)
    flow = device if by_device or not _has_browser() else loopback
    new_login = flow.login(trusted, session.out.steps, session.out.note)
    with _gateway(session, address, new_login) as gateway:
        answer = gateway.call(gateway.access.WhoAmI, gateway_pb2.WhoAmIRequest())
    session.logins.keep(address, new_login)
    if session.settings.token_file:
        session.out.warn("DAGGERS_TOKEN_FILE is set, and goes before this login")
    more = {"gateway": address, "issuer": new_login.issuer, "renews": bool(new_login.refresh_token)}
    session.out.print_result(to_json(answer) | more, f"logged in at {address} as {sentence(answer)}")


@command(app, "logout", example="daggers logout")
def logout(session: Session) -> None:
    """Tell the provider that the session is over."""
    address, logins = session.address(), session.logins
    try:
        old_login = logins.read(address)
    except RefusedError:  # a login that cannot be read is removed nevertheless
        old_login = None
    forgotten = logins.forget(address)
    is_revoked = False
    if old_login is not None:
        try:
            is_revoked = provider.revoked(old_login)
        except (RefusedError, UnreachableError, provider.ProviderError) as error:
            session.out.warn(f"the provider was not reached: {error.message}")
    sentence_ = f"logged out of {address}" if forgotten else f"there was no login at {address}"
    session.out.print_result(
        {"gateway": address, "logged_out": forgotten, "provider_told": is_revoked}, sentence_
    )


def _provider(session: Session, address: str, issuer: str, client_id: str) -> provider.Provider:
    """Return the provider to log in at: that of the flags, else the gateway's, else the environment's.

    Raises: CliError.
    """
    errors = UsageErrors()
    if bool(issuer) != bool(client_id):
        errors.add("--client-id" if issuer else "--issuer", "is missing: the two go together")
    errors.refuse()
    if issuer:
        return provider.discover(issuer, client_id)
    metadata = _read_metadata(session, address)
    issuer = metadata.get("oidc_issuer") or session.settings.oidc_issuer or ""
    client_id = metadata.get("oidc_client_id") or session.settings.oidc_client_id or ""
    if not issuer or not client_id:
        text = f"the gateway at {address} names no provider: --issuer and --client-id name one, or"
        todo = "DAGGERS_TOKEN_FILE a file with a token"
        raise RefusedError(f"{text} {todo}", reason="NO_PROVIDER")
    return provider.discover(issuer, client_id, metadata.get("oidc_scope", ""))


def _read_metadata(session: Session, address: str) -> dict[str, str]:
    """Return the metadata with which the gateway refuses a call without a token. Raises: CliError."""
    with _gateway(session, address, None) as gateway:
        try:
            gateway.ask(gateway.access.WhoAmI, gateway_pb2.WhoAmIRequest())
        except ClientError as error:
            metadata = getattr(error, "metadata", None)
            if error.reason != "TOKEN_REQUIRED" or metadata is None:
                raise gateway.explain_error(error) from error
            return dict(metadata)
    text = f"the gateway at {address} asks nobody for a token: there is nothing to log in to"
    raise RefusedError(text, reason="NO_LOGIN")


def _gateway(session: Session, address: str, login_: Login | None) -> Gateway:
    """Build a client of the gateway for a login, or without a token."""
    token = None if login_ is None else lambda: login_.id_token
    return Gateway(address, ca_file=session.settings.ca_file, token=token, warn=session.out.warn)


def _has_browser() -> bool:
    try:
        webbrowser.get()
    except webbrowser.Error:
        return False
    return True
