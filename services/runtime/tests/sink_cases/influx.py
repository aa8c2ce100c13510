"""The sink `influx` against the database of the stack."""

import pytest
from services.runtime.tests.test_sink_contract import Case, influx_sink, points


def case(dagger: str, request: pytest.FixtureRequest, printed: list[str]) -> Case:
    del printed
    address = request.getfixturevalue("influx")
    sink = influx_sink(address, dagger)
    if address["token"]:
        request.getfixturevalue("monkeypatch").setenv("SINK_TOKEN", address["token"])
        sink.sink.influx.address.token.env = "SINK_TOKEN"
    return sink, lambda: {(time, city): n for time, n, city in points(address, dagger)}
