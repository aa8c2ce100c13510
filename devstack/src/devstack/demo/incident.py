"""The demo's third dagger: it fails for a good reason, on-call is told, it is mended, on-call is told again.

What on-call would get is what the stack's alert receiver prints, line by line.
"""

from collections.abc import Callable
from pathlib import Path

from daggers.v1 import gateway_pb2, spec_pb2

from chassis.files import replace_text
from cli.framework.gateway import Gateway
from devstack.state import Influx, Stack

NAME = "cancelled_bookings"
SQL = """\
SELECT city_id AS tag_city_id, order_number, rowtime AS window_timestamp
FROM `data_stream` WHERE status = 'CANCELLED'"""
KEY = f"[daggers/{NAME}/failed]"


class Incident:
    """From the dagger's creation to the end of its alert; `step` does what is next and never waits.

    like: the dagger whose stream and cluster it shares.
    influx: where it writes.
    say: shows a line to whoever watches.
    """

    def __init__(
        self,
        gateway: Gateway,
        stack: Stack,
        like: spec_pb2.DaggerSpec,
        influx: Influx,
        say: Callable[[str], None],
    ) -> None:
        self._gateway = gateway
        self._like = like
        self._influx = influx
        self._say = say
        self._secret = stack.state_dir / "demo.token"
        self._next: Callable[[str], None] = self._begin

    @property
    def over(self) -> bool:
        """True if the alert fired and resolved."""
        return self._next == self._rest

    def step(self, lines: list[str]) -> None:
        """Do what the lines that on-call was told lead to. Raises RefusedError."""
        self._next("\n".join(lines))

    def _begin(self, _: str) -> None:
        spec = spec_pb2.DaggerSpec()
        spec.CopyFrom(self._like)
        influx = self._influx
        address = spec_pb2.InfluxAddress(
            url=influx.url,
            org=influx.org,
            bucket=influx.bucket,
            token=spec_pb2.SecretRef(file=str(self._secret)),
        )
        spec.sql = SQL
        del spec.sinks[:], spec.alerts[:]
        spec.sinks.add().influx.address.CopyFrom(address)
        request = gateway_pb2.CreateDaggerRequest(name=NAME, spec=spec)
        self._gateway.call(self._gateway.daggers.CreateDagger, request)
        self._say(f"{NAME} is created; the file with its sink's token is not there")
        self._next = self._mend

    def _mend(self, printed: str) -> None:
        if "triggered" not in printed or KEY not in printed:
            return
        token = self._influx.token_file
        replace_text(self._secret, Path(token).read_text(encoding="utf-8") if token else "", private=True)
        self._gateway.call(self._gateway.daggers.StartDagger, gateway_pb2.StartDaggerRequest(name=NAME))
        self._say(f"{NAME}: the file is put there, and the dagger is started")
        self._next = self._end

    def _end(self, printed: str) -> None:
        if f"resolved   {KEY}" not in printed:
            return
        self._gateway.call(self._gateway.daggers.DeleteDagger, gateway_pb2.DeleteDaggerRequest(name=NAME))
        self._next = self._rest

    def _rest(self, _: str) -> None:
        """Do nothing: nothing is left to do."""
