"""The port where the JVM calls Python back, for each batch: it takes commands of who knows a token.

PySpark opens it without one, so whatever reached this machine's loopback, such as the body of another
dagger's HTTP sink, was a command to this driver.
"""

from __future__ import annotations

import secrets
from typing import Any

from py4j.java_gateway import JavaObject
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import SparkSession


def ask_for_token(session: SparkSession) -> None:
    """Open the port, if it is not, with a token that the JVM alone is told; again changes nothing."""
    gateway: Any = session.sparkContext._gateway  # noqa: SLF001 - PySpark has no setting for it
    server = gateway.callback_server_parameters
    if server.auth_token is not None:
        return
    server.auth_token = secrets.token_urlsafe(32)
    ensure_callback_server_started(gateway)  # type: ignore[no-untyped-call]
    jvm_server = JavaObject("GATEWAY_SERVER", gateway._gateway_client)  # noqa: SLF001 - as PySpark finds it
    kept = gateway.jvm.java.lang.Class.forName("py4j.CallbackClient").getDeclaredField("authToken")
    kept.setAccessible(True)
    kept.set(jvm_server.getCallbackClient(), server.auth_token)
