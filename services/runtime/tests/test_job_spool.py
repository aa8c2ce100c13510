"""Drivers that are killed while a sink is away: the other sink goes on, and both get all rows."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from itertools import count
from pathlib import Path

import psycopg
import pytest
from daggers.v1 import spec_pb2
from services.runtime.tests import httpserver
from services.runtime.tests.httpserver import Received, Reply
from services.runtime.tests.launches import Beat, Dagger, Launch
from services.runtime.tests.sink_cases import http
from services.runtime.tests.sink_cases import postgres as table
from tests.integration.bookings import booking
from tests.proxy import Proxy, port_of

pytestmark = [pytest.mark.integration, pytest.mark.long]
FORWARD = spec_pb2.Forward(fields=[spec_pb2.ForwardField(name="order_number", expression="order_number")])
ROWS = 20


def test_each_sink_has_every_row_once_over_an_outage_and_kills(
    tmp_path: Path, kafka: str, postgres: str
) -> None:
    goes, database = table.sink(postgres, tmp_path)
    del goes.sink.postgres.key[:]
    goes.sink.postgres.mode = spec_pb2.PostgresSink.MODE_APPEND  # which shows a row that is there twice
    goes.sink.name = "db"
    goes.sink.on_outage.then = spec_pb2.OnOutage.THEN_WAIT
    goes.sink.on_outage.after.FromTimedelta(timedelta(minutes=15))
    near, numbers = set[str](), count()

    def answer(got: Received) -> Reply:
        near.add(got.json["order_number"])
        return Reply()

    with httpserver.serving() as server, Proxy(port_of(postgres)) as way:
        server.answer = answer
        stays = http.sink(server.url)
        stays.sink.name = "near"
        dagger = Dagger(tmp_path, kafka, sinks=[table.at(goes, way.port), stays], forward=FORWARD)
        written = set[str]()

        def write(launch: Launch) -> None:
            """Write records, and wait until the sink that stays has them."""
            orders = [str(next(numbers)) for _ in range(ROWS)]
            written.update(orders)
            dagger.write(*(booking(10, order=order) for order in orders))
            launch.until_true(lambda: near >= written)

        def rows() -> Counter[str]:
            with psycopg.connect(database) as connection:
                if connection.execute("SELECT to_regclass('counts')").fetchone() == (None,):
                    return Counter()
                return Counter(order for (order,) in connection.execute("SELECT order_number FROM counts"))

        def waiting(beat: Beat) -> int:
            return beat.spools["db"].rows if "db" in beat.spools else 0

        with dagger.launch() as first:
            write(first)
            first.until_true(lambda: rows().keys() >= written)
            way.cut()
            for _ in range(3):
                write(first)
            outage = first.until(lambda beat: waiting(beat) >= 3 * ROWS)
            first.kill()
        with dagger.launch() as second:
            write(second)
            second.until(lambda beat: waiting(beat) >= 4 * ROWS)
            way.open()
            second.until_true(lambda: len(rows()) > ROWS)
            second.kill()
        way.cut()
        with dagger.launch() as third:
            write(third)
            way.open()
            third.until_true(lambda: rows().keys() >= written)
            third.until(lambda beat: beat.batch_id >= 0 and not waiting(beat))
            write(third)
            third.until_true(lambda: rows().keys() >= written)
            code = third.stop()

        assert (rows(), near, code) == (Counter(written), written, 0)
        assert [error.detail.partition(":")[0] for error in outage.retrying] == ["db"]
        assert outage.spools["db"].error.reason == outage.retrying[0].reason
