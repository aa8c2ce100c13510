"""What telemetry's tests stand on, beside the real stack: InfluxDB 2, which the compose deployment has."""

import pytest


@pytest.fixture(scope="session", params=["influx", "influx2"], ids=["1.8", "2"])
def influx(request: pytest.FixtureRequest) -> dict[str, str]:
    """Either database: dashboards must find the same points in both."""
    address: dict[str, str] = request.getfixturevalue(request.param)
    return address
