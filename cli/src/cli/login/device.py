"""Log in by the device flow (RFC 8628): a code is entered into a browser anywhere, and waited for here."""

import time
from collections.abc import Callable
from typing import Any, Final

from cli.errors import RefusedError, UnreachableError
from cli.login.credentials import Login
from cli.login.provider import Provider, ProviderError
from cli.output.progress import Steps
from cli.output.visible import printable

GRANT: Final = "urn:ietf:params:oauth:grant-type:device_code"
INTERVAL_S: Final = 5.0
SLOWER_S: Final = 5.0
EXPIRES_S: Final = 600.0
TICK_S: Final = 1.0


def login(
    provider: Provider,
    steps: Steps,
    say: Callable[[str], None],
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> Login:
    """Log in by a code. Raises: CliError."""
    url = provider.endpoint("device_authorization")
    if url is None:
        text = f"{provider.issuer} has no device flow: log in without --device, where a browser is"
        raise RefusedError(text, reason="NO_DEVICE_FLOW")
    answer = provider.post(url, scope=provider.scope)
    code, page = answer.get("device_code"), answer.get("verification_uri")
    if not isinstance(code, str) or not isinstance(page, str):
        raise RefusedError(f"{provider.issuer} gives no code", reason="LOGIN_REFUSED")
    say(f"open {printable(page)} in any browser and enter the code {printable(str(answer.get('user_code')))}")
    if isinstance(complete := answer.get("verification_uri_complete"), str):
        say(f"or open {printable(complete)}, which has it already")
    interval, end = (
        _seconds(answer, "interval", INTERVAL_S),
        clock() + _seconds(answer, "expires_in", EXPIRES_S),
    )
    with steps.step("waiting until you have logged in") as report:
        while True:
            due = clock() + interval
            while (left := due - clock()) > 0:
                report(f"(the code is good for {max(0.0, end - clock()):.0f} s; Ctrl-C ends it)")
                sleep(min(left, TICK_S))
            try:
                return provider.request_login(grant_type=GRANT, device_code=code)
            except ProviderError as error:
                interval += _slower(error)
            except UnreachableError:  # the provider may answer again before the code expires
                interval += SLOWER_S
            if clock() > end:
                raise _expiry_error()


def _slower(error: ProviderError) -> float:
    """Return by how many seconds to poll less often. Raises the error that ends the wait."""
    match error.error:
        case "authorization_pending":
            return 0.0
        case "slow_down":
            return SLOWER_S
        case "expired_token":
            raise _expiry_error() from error
        case "access_denied":
            raise RefusedError("the login was refused in the browser", reason="LOGIN_REFUSED") from error
        case _:
            raise error


def _expiry_error() -> RefusedError:
    return RefusedError(
        "the code has ended before anybody logged in: `daggers login` again", reason="LOGIN_LATE"
    )


def _seconds(answer: dict[str, Any], name: str, default: float) -> float:
    value = answer.get(name)
    return float(value) if isinstance(value, int | float) and value > 0 else default
