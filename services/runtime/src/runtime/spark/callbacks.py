"""Protect by a token the port where the JVM calls Python back for each batch.

PySpark opens it without one: anything that reaches this machine's loopback, such as a body of another
dagger's HTTP sink, would be a command to this driver.
"""

from __future__ import annotations

import secrets
from typing import Any

from py4j.java_gateway import JavaObject
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import SparkSession


def ask_for_token(session: SparkSession) -> None:
    """Open the port, unless it is open, with a token that only the JVM gets. Idempotent."""
    gateway: Any = session.sparkContext._gateway  # noqa: SLF001 - PySpark has no setting for it
    server = gateway.callback_server_parameters
    if server.auth_token is not None:
        return
    server.auth_token = secrets.token_urlsafe(32)
    ensure_callback_server_started(gateway)  # type: ignore[no-untyped-call]
    jvm_server = JavaObject("GATEWAY_SERVER", gateway._gateway_client)  # noqa: SLF001 - as PySpark finds it
    token_field = gateway.jvm.java.lang.Class.forName("py4j.CallbackClient").getDeclaredField("authToken")
    token_field.setAccessible(True)
    token_field.set(jvm_server.getCallbackClient(), server.auth_token)
