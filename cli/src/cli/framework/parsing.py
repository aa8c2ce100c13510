"""Parse the command line of a command as a whole: all missing and wrong parameters are reported at once.

Typer checks every value with pydantic, whose import takes twice as long as a call of the gateway. Plainly
valid values are converted here; typer converts all others, and reports what is wrong with them.
"""

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from typer.core import TyperArgument, TyperCommand, TyperOption
from typer.exceptions import TyperException

from cli.errors import MisusedError

MISUSED = 2


class UnsureError(Exception):
    """A value that is not plainly right."""


@dataclass(frozen=True)
class Plain:
    """Converts plainly valid values of one parameter.

    judge: returns typer's own conversion, for all others.
    """

    parameter: Any
    judge: Any

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """Convert a value as typer would. Raises what typer raises."""
        if value is None:
            return () if param.multiple or param.nargs == -1 else None
        with suppress(UnsureError):
            return plain(value, self.parameter.type_descriptor)
        return self.judge().coerce(value, param=param, ctx=ctx)


def plain(value: Any, kind: Any) -> Any:
    """Convert a plainly valid value. Raises: UnsureError."""
    wanted = kind.annotation
    if not isinstance(wanted, type):
        raise UnsureError
    if type(value) is wanted:
        return _within(value, kind)
    if not isinstance(value, str):
        raise UnsureError
    if wanted is Path:
        return Path(value)
    if issubclass(wanted, Enum) and value in {member.value for member in wanted}:
        return wanted(value)
    if wanted is int and value.isascii() and value.isdigit():
        return _within(int(value), kind)
    raise UnsureError


def _within(value: Any, kind: Any) -> Any:
    """Return a number that lies within its limits. Raises: UnsureError."""
    if kind.is_ranged:
        low, high = kind.parameter_info.min, kind.parameter_info.max
        if (low is not None and value < low) or (high is not None and value > high):
            raise UnsureError
    return value


class Option(TyperOption):
    """A flag, as typer has read it from a signature."""

    def __init__(self, option: TyperOption) -> None:
        vars(self).update(vars(option))

    def get_runtime_param(self) -> Any:
        """Return the converter of its values."""
        return Plain(self, super().get_runtime_param)


class Argument(TyperArgument):
    """A word without a flag, as typer has read it from a signature."""

    def __init__(self, argument: TyperArgument) -> None:
        vars(self).update(vars(argument))

    def get_runtime_param(self) -> Any:
        """Return the converter of its values."""
        return Plain(self, super().get_runtime_param)


def with_plain_values(parameters: Iterable[Any] | None) -> list[Any]:
    """Make parameters that convert plain values themselves: typer takes no class to make them of."""
    kinds: dict[type, Callable[[Any], Any]] = {TyperOption: plain_option, TyperArgument: Argument}
    return [kinds.get(type(parameter), lambda same: same)(parameter) for parameter in parameters or ()]


def plain_option(option: TyperOption | None) -> TyperOption | None:
    """Make such a flag of one of typer's; None where there is none."""
    return Option(option) if option else None


class Command(TyperCommand):
    """A command that checks all of its parameters before it reports the first problem."""

    def __init__(self, name: str | None, *, params: Any = None, **further: Any) -> None:
        super().__init__(name, params=with_plain_values(params), **further)

    def get_help_option(self, ctx: Any) -> Any:
        """Make the option --help, which has a value on each command line, too."""
        return plain_option(super().get_help_option(ctx))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse arguments as click does. Raises: MisusedError where several parameters are
        missing or wrong.
        """
        words = list(args)  # click's parser takes what it reads out of the list
        try:
            return super().parse_args(ctx, args)
        except TyperException as error:
            findings = self._findings(ctx, words) if error.exit_code == MISUSED else []
            if len(findings) < 2:
                raise
            from daggerclient.findings import headline  # brings the client along

            raise MisusedError(
                f"{headline(findings)} (`{ctx.command_path} --help` shows how)", findings=findings
            ) from error

    def _findings(self, ctx: Any, words: list[str]) -> list[dict[str, Any]]:
        """Build a finding for each missing or wrong parameter; none where the words cannot be parsed."""
        try:
            given, rest, _ = self.make_parser(ctx).parse_args(args=words)
        except TyperException:
            return []
        findings = []
        for parameter in self.get_params(ctx):
            try:
                parameter.handle_parse_result(ctx, given, rest)
            except TyperException as error:
                name = parameter.opts[0] if parameter.opts[0].startswith("-") else parameter.name.upper()
                # a parameter that is missing has no message of its own
                missing = {"code": "MISSING", "message": "is missing"}
                wrong = {"code": "BAD_VALUE", "message": error.message}
                findings.append({**(wrong if error.message else missing), "field": name})
        return findings
