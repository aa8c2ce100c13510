"""The session of a command: the options that all commands share, and what they select."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.framework.extension import Extension
from cli.framework.parsing import Command
from cli.login.store import Logins
from cli.output.printer import Format, Printer
from cli.settings import CommandSettings

if TYPE_CHECKING:
    from cli.framework.gateway import Gateway

StateDir = Annotated[
    Path | None,
    typer.Option(
        "--state-dir",
        metavar="DIR",
        help="State directory of a local stack; default: that of the stack that was last started from the"
        " same checkout.",
    ),
]
GatewayAddress = Annotated[
    str | None,
    typer.Option(
        "--gateway",
        metavar="HOST:PORT",
        help="Address of the gateway; default: the local stack's. https://HOST:PORT for TLS: DAGGERS_CA_FILE "
        "and DAGGERS_TOKEN_FILE name the authority and the token, if they are needed.",
    ),
]
Output = Annotated[
    Format | None,
    typer.Option(
        "--output", "-o", help="Print text, wide text, or one JSON document on stdout and nothing else."
    ),
]


@dataclass(frozen=True)
class Common:
    """The shared options as given, before the command's name or after it."""

    settings: CommandSettings
    extension: Callable[[], Extension]
    state_dir: Path | None = None
    gateway: str | None = None
    output: Format | None = None


@dataclass(frozen=True)
class Session:
    """One run of a command.

    extension: loads the extension that knows the stack of this machine.
    state_dir: absolute path of --state-dir; None where it was not given.
    gateway: value of --gateway.
    """

    settings: CommandSettings
    extension: Callable[[], Extension]
    state_dir: Path | None
    gateway: str | None
    out: Printer

    def connect(self, flags: Mapping[str, str] = MappingProxyType({})) -> "Gateway":
        """Build a client of the gateway, to be used as a context manager. Raises: UnreachableError where none
        is known.

        flags: the flag of the command that fills each field of its requests.
        """
        from cli.framework.gateway import Gateway  # a client: not for commands that make no call

        settings, address = self.settings, self.address()
        login = None if settings.token_file else self.logins.token(address)
        return Gateway(
            address,
            ca_file=settings.ca_file,
            token_file=settings.token_file or (None if login else self._stacks_token(address)),
            token=login,
            flags=flags,
            warn=self.out.warn,
            proxy=settings.gateway_proxy,
        )

    @property
    def logins(self) -> Logins:
        """Logins of this user by gateway."""
        return Logins(self.settings.state_home)

    def kafka(self) -> str:
        """Return the bootstrap servers of the local stack. Raises: RefusedError where none
        was ever started.
        """
        address = self.extension().kafka(self.state_dir, self.settings.state_home)
        self._say_which(address)
        return address

    def address(self) -> str:
        """Return the gateway's address. Raises: UnreachableError where none is known."""
        if self.gateway:
            return self.gateway
        if self.state_dir is None and self.settings.gateway:
            return self.settings.gateway
        address = self.extension().gateway(self.state_dir, self.settings.state_home)
        self._say_which(address)
        return address

    def _stacks_token(self, address: str) -> Path | None:
        """Return the token file of the stack whose gateway has this address; other gateways
        must not get it.
        """
        return self.extension().token_file(address, self.state_dir, self.settings.state_home)

    def _say_which(self, address: str) -> None:
        """Print which stack is used where nobody chose one: of two stacks it may be the wrong one."""
        if self.state_dir is None:
            folder = self.extension().stack(None, self.settings.state_home)
            self.out.note(f"asking {address}, of the stack that was last started from here ({folder})")


def command(
    app: typer.Typer, name: str, *, example: str, **options: Any
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Register `function(session, …)` as the command `name`, with the options that every command has.

    example: one command line, shown by --help.
    """

    def register(function: Callable[..., None]) -> Callable[..., None]:
        @wraps(function)
        def run(
            ctx: typer.Context,
            *args: Any,
            state_dir: Path | None,
            gateway: str | None,
            output: Format | None,
            **kwargs: Any,
        ) -> None:
            given: Common = ctx.obj
            folder = state_dir or given.state_dir
            session = Session(
                given.settings,
                given.extension,
                state_dir=folder.expanduser().resolve() if folder else None,
                gateway=gateway or given.gateway,
                out=Printer(output or given.output or Format.TEXT, command=given.settings.command),
            )
            function(session, *args, **kwargs)

        own = list(inspect.signature(function, eval_str=True).parameters.values())[1:]
        shared = {"state_dir": StateDir, "gateway": GatewayAddress, "output": Output}
        keyword = inspect.Parameter.KEYWORD_ONLY
        parameters = [
            inspect.Parameter("ctx", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context),
            *(parameter.replace(kind=keyword) for parameter in own),
            *(inspect.Parameter(n, keyword, default=None, annotation=kind) for n, kind in shared.items()),
        ]
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined] # what typer reads
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        app.command(name, cls=Command, epilog=f"Example: {example}", **options)(run)
        return function

    return register
