"""A group of commands, as every module of commands begins one."""

from typing import Any

import typer
from typer.core import TyperGroup

from cli.framework.parsing import MISUSED, taken_plainly
from cli.output.printer import print_text


class Group(TyperGroup):
    """Without a command it shows its help."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Its parameters, which take plainly what is plainly right."""
        return taken_plainly(super().get_params(ctx))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """As typer has it. Raises: typer.Exit."""
        if not args:
            print_text(ctx.get_help())
            raise typer.Exit(MISUSED)
        return super().parse_args(ctx, args)


def group(about: str = "", cls: type[Group] = Group, **further: Any) -> typer.Typer:
    """An empty one. Its help is plain text: to draw frames around it takes longer than a command."""
    return typer.Typer(
        cls=cls,
        help=about,
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        **further,
    )
