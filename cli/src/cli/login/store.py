"""Logins that renew themselves, one for each gateway, each in a private file.

Nothing here loads more than a command without a login needs: renewing does, when it is due.
"""

import fcntl
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Final, TypeAlias
from urllib.parse import quote

from chassis.files import replace_text
from cli.errors import CliError, RefusedError
from cli.login.credentials import Login

MARGIN_S: Final = 60.0
"""A token is renewed so long before its end."""

Renew: TypeAlias = Callable[[Login], Login]


class Logins:
    """The folder of one user's logins."""

    def __init__(self, state_home: Path, clock: Callable[[], float] = time.time) -> None:
        """`clock`: seconds since 1970."""
        self._folder, self._clock = state_home / "daggers" / "logins", clock

    def read(self, gateway: str) -> Login | None:
        """Return the login at a gateway; None where there is none. Raises: RefusedError where its file is
        damaged.
        """
        file = self._file(gateway)
        try:
            return Login(**json.loads(file.read_text(encoding="utf-8")))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError) as error:
            text = f"{file} cannot be read as a login: `daggers logout` removes it"
            raise RefusedError(text, reason="BAD_LOGIN") from error

    def keep(self, gateway: str, login: Login) -> None:
        """Store a login, readable by this user alone. Raises: RefusedError."""
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            replace_text(self._file(gateway), json.dumps(asdict(login)) + "\n", private=True)
        except OSError as error:
            text = f"{error.filename or self._folder}: {error.strerror or error}"
            raise RefusedError(text, reason="NOT_KEPT") from error

    def forget(self, gateway: str) -> bool:
        """Remove the login at a gateway; return whether there was one."""
        file = self._file(gateway)
        there = file.exists()
        file.unlink(missing_ok=True)
        return there

    def token(self, gateway: str, renew: Renew | None = None) -> Callable[[], str] | None:
        """Build a function that returns a valid token at each call; None where there is no login.

        The function raises RefusedError where the login has ended, UnreachableError where the provider that
        should renew it does not answer.
        """
        there = self.read(gateway) is not None
        return partial(self._good, gateway, renew or _at_the_provider) if there else None

    def _good(self, gateway: str, renew: Renew) -> str:
        login = self._login(gateway)
        if self._clock() < login.ends - MARGIN_S:
            return login.id_token
        with self._alone(gateway):  # a refresh token may be good for one renewal only
            login = self._login(gateway)
            if self._clock() >= login.ends - MARGIN_S:
                try:
                    login = renew(login)
                except CliError:
                    if self._clock() >= login.ends:
                        raise
                else:
                    self.keep(gateway, login)
        return login.id_token

    def _login(self, gateway: str) -> Login:
        login = self.read(gateway)
        if login is None:
            raise RefusedError(f"there is no login at {gateway} any more: `daggers login`", reason="NO_LOGIN")
        return login

    @contextmanager
    def _alone(self, gateway: str) -> Iterator[None]:
        with self._file(gateway).with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _file(self, gateway: str) -> Path:
        return self._folder / f"{quote(gateway.lower().rstrip('/'), safe='')}.json"


def _at_the_provider(login: Login) -> Login:
    from cli.login.provider import renew  # a client of HTTP: once an hour at most

    return renew(login)
