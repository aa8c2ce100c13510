"""Bookings and pings as the Protobuf messages of the example schemas; broken ones too."""

import random
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from daggers.v1 import spec_pb2
from google.protobuf import message_factory
from google.protobuf.message import DecodeError

from devstack.demo.city import Booking, Ping

BOOKING, PING = "examples.v1.Booking", "examples.v1.DriverPing"
SCHEMAS = ("booking.proto", "driver_ping.proto")


@dataclass(frozen=True)
class Encoder:
    """Encodes events whose second 0 is `start`."""

    classes: Mapping[str, Any]
    start: datetime

    @staticmethod
    def of(schema: spec_pb2.Schema, start: datetime) -> "Encoder":
        """Make the encoder for the registered example schemas."""
        return Encoder(message_factory.GetMessages(schema.files.file), start)

    def booking(self, event: Booking) -> bytes:
        """Encode a booking."""
        message = self.classes[BOOKING](
            order_number=event.order_number,
            status=event.status,
            city_id=event.city_id,
            vehicle_type=event.vehicle_type,
            lat=event.latitude,
            long=event.longitude,
            driver_id=event.driver_id,
            customer={"id": f"customer-{hash_of(event.order_number)}", "locale": "id"},
            price={"currency": "USD", "amount": event.amount},
        )
        message.event_timestamp.FromDatetime(self.instant(event.second))
        encoded: bytes = message.SerializeToString()
        return encoded

    def ping(self, event: Ping) -> bytes:
        """Encode a ping."""
        message = self.classes[PING](
            driver_id=event.driver_id,
            latitude=event.latitude,
            longitude=event.longitude,
            driver_status=event.status,
            vehicle={"type": event.vehicle_type, "plate": f"B {event.driver_id[-4:]} XY"},
            speed_kmh=event.speed_kmh,
            battery_percent=event.battery_percent,
        )
        message.event_timestamp.FromDatetime(self.instant(event.second))
        encoded: bytes = message.SerializeToString()
        return encoded

    def truncate(self, whole: bytes, kind: str, chance: random.Random) -> bytes:
        """Return a record as if it was cut off on its way, so that it does not parse any more."""
        while True:
            part = whole[: chance.randrange(1, len(whole))]
            try:
                self.classes[kind].FromString(part)
            except DecodeError:
                return part

    def instant(self, second: float) -> datetime:
        """Return the instant of a second after the start."""
        return self.start + timedelta(seconds=second)


def hash_of(text: str) -> int:
    """Return a small number that is the same for the same text in every process."""
    return sum(text.encode()) % 1000


def utc(epoch_s: float) -> datetime:
    """Return the instant of seconds after the epoch."""
    return datetime.fromtimestamp(epoch_s, UTC)


def example_files(examples: Path) -> list[Path]:
    """Return the schemas to register."""
    return [examples / "schemas" / name for name in SCHEMAS]
