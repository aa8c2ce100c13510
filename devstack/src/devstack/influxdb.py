"""The embedded InfluxDB 1.8: its configuration, its administrator and its database, and those of teams."""

import json
import secrets
from http import HTTPStatus
from pathlib import Path

import urllib3

from chassis.files import make_private, replace_text
from cli.errors import RefusedError
from devstack import ports
from devstack.state import DATABASE, TOKEN_FILE, Influx, Stack
from devstack.tools.install import Tools

USER = "daggers"
TIMEOUT = urllib3.Timeout(10)
CONFIG = """\
reporting-disabled = true
bind-address = "127.0.0.1:{influx_rpc}"

[meta]
  dir = {meta}
  logging-enabled = false

[data]
  dir = {data}
  wal-dir = {wal}
  index-version = "tsi1"
  query-log-enabled = false

[monitor]
  store-enabled = false

[http]
  bind-address = "127.0.0.1:{influx}"
  flux-enabled = true
  auth-enabled = true
  log-enabled = false

[continuous_queries]
  enabled = false

[logging]
  level = "warn"
"""


def prepare(stack: Stack) -> None:
    """Write the configuration, and make the password if this is the first start."""
    home = make_private(stack.state_dir / "influxdb")
    # a JSON string is a TOML basic string, but for characters that it writes as two
    folders = {name: json.dumps(str(home / name), ensure_ascii=False) for name in ("meta", "data", "wal")}
    replace_text(home / "influxdb.conf", CONFIG.format(**stack.ports, **folders), private=True)
    token = stack.state_dir / TOKEN_FILE
    if not token.exists():
        replace_text(token, f"{USER}:{secrets.token_urlsafe(24)}\n", private=True)


def command(stack: Stack, tools: Tools) -> list[str]:
    """Return the server's command line."""
    assert tools.influxd is not None
    return [str(tools.influxd), "-config", str(stack.state_dir / "influxdb" / "influxdb.conf")]


def ready(stack: Stack) -> bool:
    """Tell whether the server answers; then also makes sure of its user and its database.

    Raises: RefusedError when it refuses our password.
    """
    if not ports.is_open(stack.ports["influx"]):
        return False
    user, password = (stack.state_dir / TOKEN_FILE).read_text().strip().split(":", 1)
    create_database = f'CREATE DATABASE "{DATABASE}"'
    with urllib3.PoolManager(timeout=TIMEOUT, retries=False) as http:
        try:
            status = _query(http, stack, create_database, user, password)
            if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
                # only the first user may be made without credentials
                _query(http, stack, f"CREATE USER \"{user}\" WITH PASSWORD '{password}' WITH ALL PRIVILEGES")
                status = _query(http, stack, create_database, user, password)
        except urllib3.exceptions.HTTPError:
            return False
    if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        raise RefusedError(f"InfluxDB does not accept the password in {stack.state_dir / TOKEN_FILE}")
    return status == HTTPStatus.OK


def own_database(stack: Stack, name: str, token: Path) -> Influx:
    """Make a database, and a user of its name who may read and write it and nothing else.

    name: of the form of a team's. token: the file that has that user's name and password; made where it is
    not there. Raises: RefusedError.
    """
    if not token.exists():
        replace_text(token, f"{name}:{secrets.token_urlsafe(24)}\n", private=True)
    _, password = read_token(token).split(":", 1)
    statements = (
        f'CREATE DATABASE "{name}"',
        f"CREATE USER \"{name}\" WITH PASSWORD '{password}'",
        f'GRANT ALL ON "{name}" TO "{name}"',
    )
    own = read_token(stack.state_dir / TOKEN_FILE).split(":", 1)
    with urllib3.PoolManager(timeout=TIMEOUT, retries=False) as http:
        for statement in statements:  # each alone: of several at once no error says more than "not executed"
            try:
                answer = _ask(http, stack, statement, *own).json()
            except (urllib3.exceptions.HTTPError, ValueError) as error:
                raise RefusedError(f"InfluxDB does not answer: {error}") from error
            for part in (answer, *answer.get("results", ())):
                if "error" in part:
                    raise RefusedError(f"InfluxDB does not make the database {name}: {part['error']}")
    return Influx(stack.influx.url, stack.influx.org, name, str(token))


def read_token(file: str | Path) -> str:
    """Read the token in a file. Raises RefusedError when it cannot be read."""
    try:
        return Path(file).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise RefusedError(f"the InfluxDB token file {file} cannot be read") from error


def _query(
    http: urllib3.PoolManager, stack: Stack, query: str, user: str | None = None, password: str | None = None
) -> int:
    return _ask(http, stack, query, user, password).status


def _ask(
    http: urllib3.PoolManager, stack: Stack, query: str, user: str | None = None, password: str | None = None
) -> urllib3.BaseHTTPResponse:
    headers = urllib3.make_headers(basic_auth=f"{user}:{password}") if user else {}
    return http.request_encode_body(
        "POST", f"{stack.influx.url}/query", fields={"q": query}, headers=headers, encode_multipart=False
    )
