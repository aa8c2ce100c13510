"""Settings: read once, in `__main__`, from the environment; frozen; explained by `--help`.

Bad settings end the process with exit code 2 and one line for each, naming the variable, never its value.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from tempfile import TemporaryFile
from textwrap import fill
from typing import Annotated, Any, NoReturn, TypeAlias, TypeVar

from pydantic import AfterValidator, Field, FilePath, ValidationError, field_validator
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, SettingsConfigDict

from chassis.binding import host_and_port, is_loopback
from chassis.egress import proxies
from chassis.egress.addresses import EgressRules
from chassis.egress.proxies import Proxies
from chassis.removed_settings import removed_problems
from daggerspec import folders, places
from daggerspec.places import Place


class ServiceSettings(BaseSettings):
    """Base of a service's settings. A string under each field says what it is, and its unit.

    A subclass sets `model_config = SettingsConfigDict(env_prefix="DAGGERS_…_")`.
    """

    model_config = SettingsConfigDict(
        frozen=True, env_ignore_empty=True, use_attribute_docstrings=True, hide_input_in_errors=True
    )


def _check_bind(bind: str) -> str:
    if bind:
        host_and_port(bind)
    return bind


Bind: TypeAlias = Annotated[str, AfterValidator(_check_bind)]
"""host:port to listen on; empty: nowhere."""


class MetricsSettings(ServiceSettings):
    """Address for Prometheus: a field that services mix into their settings."""

    metrics_bind: Bind = ""
    """Address to answer Prometheus' /metrics on, host:port, without TLS and tokens: who reaches it reads
    counts and times, and no name of a dagger, a caller or an address. Unset: nowhere."""


class EgressSettings(ServiceSettings):
    """Hosts that may be reached beside the public internet: fields that services mix into their settings."""

    # Every service's, so without a prefix; a test gives them by their own names.
    model_config = SettingsConfigDict(populate_by_name=True)

    allowed_hosts: str = Field(default="", validation_alias="DAGGERS_ALLOWED_HOSTS")
    """host[:port], comma-separated, as in URLs: where receivers and sinks may be although the host is private
    or loopback, or the URL is plain http."""

    allowed_networks: str = Field(default="", validation_alias="DAGGERS_ALLOWED_NETWORKS")
    """Networks such as 10.0.0.0/8, comma-separated: the same for every host in them. Where clouds keep the
    secrets of machines (169.254.169.254 and others) is in none."""

    outward_proxy: str = Field(default="", validation_alias="DAGGERS_OUTWARD_PROXY", repr=False)
    """HTTP proxy, http://host:port, of what leaves for receivers, sinks and providers; direct: none. Unset:
    as http_proxy, https_proxy, all_proxy and no_proxy say, in either case. Loopback, and what the platform's
    services ask each other, never goes by one."""

    @field_validator("outward_proxy")
    @classmethod
    def _is_proxy(cls, proxy: str) -> str:
        return proxies.check_setting(proxy)

    @field_validator("allowed_hosts")
    @classmethod
    def _are_hosts(cls, hosts: str) -> str:
        EgressRules.parse(hosts)
        return hosts

    @field_validator("allowed_networks")
    @classmethod
    def _are_networks(cls, networks: str) -> str:
        EgressRules.parse("", networks)
        return networks

    @property
    def allowed(self) -> EgressRules:
        """Hosts and networks that an administrator vouches for."""
        return EgressRules.parse(self.allowed_hosts, self.allowed_networks)

    @property
    def proxies(self) -> Proxies:
        """By which proxies calls leave."""
        return Proxies.of_environment(self.outward_proxy)


class FolderSettings(ServiceSettings):
    """Folders for files: a field that services mix into their settings."""

    model_config = SettingsConfigDict(populate_by_name=True)

    allowed_folders: str = Field(default="", validation_alias="DAGGERS_ALLOWED_FOLDERS")
    """Absolute folders of the drivers' hosts, comma-separated, that sinks may write files below; one that has
    a comma stands in quotes; {team} as a whole part of one is the dagger's team. Empty: nowhere, but where
    administrators register a sink."""

    @field_validator("allowed_folders")
    @classmethod
    def _are_folders(cls, text: str) -> str:
        folders.parse(text)
        return text


class SecretPlacesSettings(ServiceSettings):
    """Places of tenants' secrets: a field that services mix into their settings."""

    model_config = SettingsConfigDict(populate_by_name=True)

    secret_places: str = Field(default="", validation_alias="DAGGERS_SECRET_PLACES")
    """Places of secrets that owners register, and that specifications find by themselves: WHERE TEAM ADDRESS
    … each, separated by semicolons. WHERE is an absolute folder of the drivers' hosts, env:NAME or
    env:PREFIX*; an ADDRESS is host:port or https://host; * is every team, or every address. Empty: nowhere.
    Administrators register secrets wherever they are."""

    @field_validator("secret_places")
    @classmethod
    def _are_places(cls, text: str) -> str:
        places.parse(text)
        return text

    @property
    def allowed_secrets(self) -> tuple[Place, ...]:
        """Return where tenants' secrets may be."""
        return places.parse(self.secret_places)


class HostTokenSettings(ServiceSettings):
    """Token between gateways and the hosts of drivers: a field that both mix into their settings."""

    model_config = SettingsConfigDict(populate_by_name=True)

    host_token_file: FilePath | None = Field(default=None, validation_alias="DAGGERS_HOST_TOKEN_FILE")
    """File with one NAME:TOKEN a line, shared by gateways and schedulers. A gateway shows the first to read
    logs and rows; with it, every call of a scheduler needs one of them. Unset: none, which schedulers on
    loopback may do without. Read again when it changes."""


class ConnectionSettings(ServiceSettings):
    """Limit of a server's connections: a field that servers mix into their settings."""

    model_config = SettingsConfigDict(populate_by_name=True)

    connections_per_address: int | None = Field(
        default=None, ge=1, validation_alias="DAGGERS_CONNECTIONS_PER_ADDRESS"
    )
    """Connections that one address may have; of more, those are closed first that showed no token. Clients
    behind one proxy share its address: give it as many as it opens. Unset: 250 of a gateway, 1,000 of a
    portal."""


class LeaderSettings(ServiceSettings):
    """Patience of standbys: a field that services with a leader mix into their settings."""

    model_config = SettingsConfigDict(populate_by_name=True)

    leader_timeout_s: float | None = Field(default=None, ge=0.5, validation_alias="DAGGERS_LEADER_TIMEOUT_S")
    """Seconds without a beat of the leader after which a standby takes over. Unset: 10 of a scheduler, 15 of
    a health monitor."""


class LoginSettings(ServiceSettings):
    """Login of people: a field that gateways and portals mix into their settings."""

    model_config = SettingsConfigDict(populate_by_name=True)

    oidc_scope: str = Field(default="", validation_alias="DAGGERS_OIDC_SCOPE")
    """Scopes that `daggers login` and the pages request from the provider, separated by spaces; pages leave
    out those that it does not list. Empty: openid, and those that it lists of email, groups and
    offline_access, which renews a login."""


S = TypeVar("S", bound=ServiceSettings)


def load(kind: type[S], argv: Sequence[str], *, prog: str) -> S:
    """Read the settings of this process; `--help` in `argv` explains them and ends it.

    `prog`: command of the process, for example "python -m api_gateway".
    """
    argparse.ArgumentParser(
        prog=prog,
        description=(kind.__doc__ or "").strip(),
        epilog=explain(kind),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    ).parse_args(argv)
    problems = list_removed(str(kind.model_config.get("env_prefix") or ""))
    try:
        settings = kind()
    except ValidationError as error:
        refuse([*_lines(kind, error), *problems], prog=prog)
    if problems:
        refuse(problems, prog=prog)
    return settings


def list_removed(prefix: str) -> list[str]:
    """Return a line for each variable with this prefix that is set and is no setting any more."""
    environment = os.environ  # noqa: TID251 - nothing is read but whether it is set
    return [f"{name} {problem}" for name, problem in removed_problems(prefix, environment)]


def refuse(problems: Iterable[str], *, prog: str) -> NoReturn:
    """Write every problem of the settings to stderr and exit with code 2. Raises: SystemExit."""
    lines = [f"{prog}: bad settings:", *(f"  {problem}" for problem in problems)]
    sys.stderr.write("\n".join([*lines, f"`{prog} --help` explains each setting.", ""]))
    raise SystemExit(2)


def _lines(kind: type[ServiceSettings], error: ValidationError) -> Iterator[str]:
    for problem in error.errors(include_url=False, include_context=False, include_input=False):
        message = problem["msg"].removeprefix("Value error, ")
        field = ".".join(str(part) for part in problem["loc"])
        yield f"{variable(kind, field)}: {message}" if field else message


def variable(kind: type[ServiceSettings], field: str) -> str:
    """Return the name of the environment variable of a field."""
    aliases = {name: info.validation_alias for name, info in kind.model_fields.items()}
    if field in aliases.values():
        return field
    if isinstance(alias := aliases.get(field), str):
        return alias
    return f"{kind.model_config.get('env_prefix', '')}{field}".upper()


def go_together(settings: ServiceSettings, *fields: str) -> None:
    """Refuse some of these fields without the others. Raises: ValueError, naming the variables."""
    if len({getattr(settings, name) is None for name in fields}) > 1:
        raise ValueError(f"{' and '.join(variable(type(settings), name) for name in fields)} go together")


def only_loopback_is_open(settings: ServiceSettings, bind: str, *needed: str) -> None:
    """Refuse an address (field `bind`) that other machines reach, without the fields that it needs then.

    Raises: ValueError, naming the variables.
    """
    kind, address = type(settings), getattr(settings, bind)
    missing = ", ".join(variable(kind, name) for name in needed if getattr(settings, name) is None)
    if missing and not is_loopback(address):
        where = f"{variable(kind, bind)} {address}"
        raise ValueError(f"{where} is not loopback: set {missing}, or bind to 127.0.0.1")


def own_directory(settings: ServiceSettings, field: str) -> None:
    """See that the directory in this field can be written to; made where it is not there.

    Raises: ValueError, naming the variable.
    """
    directory = getattr(settings, field)
    if directory is None:
        return
    try:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        with TemporaryFile(dir=directory):
            pass
    except OSError as error:
        name = variable(type(settings), field)
        raise ValueError(f"{name}: {directory} cannot be written to: {error.strerror}") from error


def problem_of(settings: ServiceSettings, error: OSError | ValueError) -> str:
    """Describe an error of settings; of a file, by the variable that names the file."""
    if not isinstance(error, OSError) or not error.filename:
        return str(error)
    kind, place = type(settings), str(error.filename)
    named = [variable(kind, field) for field in kind.model_fields if str(getattr(settings, field)) == place]
    return ": ".join([*named, place, error.strerror or str(error)])


def explain(kind: type[ServiceSettings]) -> str:
    """Write a paragraph for each setting: variable, default, description."""
    paragraphs = ["environment variables:"]
    for name, field in kind.model_fields.items():
        paragraphs.append(f"  {variable(kind, name)}  ({_default(field)})")
        text = " ".join((field.description or "").split())
        paragraphs.append(fill(text, width=100, initial_indent="      ", subsequent_indent="      "))
    return "\n".join(paragraphs)


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    default: Any = field.get_default(call_default_factory=True, validated_data={})
    return "not set" if default is None else f"default: {default}"
