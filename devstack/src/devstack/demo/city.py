"""A simulated city: bookings and driver pings with rush hours and hot spots. Pure, and the same for one seed.

A simulated day takes a minute, so that a short demo sees both rush hours.
"""

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

TICK_S = 0.1
DAY_S = 60.0
DRIVERS = 120
PING_EVERY_S = 2.0
CALM_BOOKINGS_PER_S, RUSH_BOOKINGS_PER_S = 12.0, 48.0
RUSH_HOURS = (8.5, 18.0)
# events arrive a little out of order, well within the watermark delay of 5 s
OUT_OF_ORDER_S = 2.5
# a concert ends at the stadium: within one window of 10 s, whatever out of order
CONCERT_S = (23.0, 27.0)
CONCERT_BOOKINGS = 40
STATUSES = {"CREATED": 0.4, "DRIVER_ASSIGNED": 0.2, "COMPLETED": 0.3, "CANCELLED": 0.1}
VEHICLES = {"bike": 0.7, "car": 0.25, "van": 0.05}
FARES = {"bike": 1.2, "car": 3.5, "van": 6.0}


@dataclass(frozen=True)
class Spot:
    """A place where people gather: city, centre in degrees, share of the traffic."""

    name: str
    city_id: int
    latitude: float
    longitude: float
    share: float


SPOTS = (
    Spot("central station", 1, -6.1767, 106.8306, 0.35),
    Spot("stadium", 1, -6.2186, 106.8020, 0.2),
    Spot("old town", 1, -6.1352, 106.8133, 0.15),
    Spot("university", 2, -6.8915, 107.6107, 0.2),
    Spot("airport", 2, -6.9006, 107.5763, 0.1),
)
SPREAD_DEGREES = 0.012


@dataclass(frozen=True)
class Booking:
    """A change of a booking; `second` is event time, in seconds after the start."""

    second: float
    order_number: str
    status: str
    city_id: int
    vehicle_type: str
    latitude: float
    longitude: float
    driver_id: str = ""
    amount: float = 0.0


@dataclass(frozen=True)
class Ping:
    """A driver at an instant; `second` is event time, in seconds after the start."""

    second: float
    driver_id: str
    status: str
    latitude: float
    longitude: float
    vehicle_type: str
    speed_kmh: float
    battery_percent: int


@dataclass
class _Driver:
    id: str
    spot: Spot
    vehicle_type: str
    latitude: float
    longitude: float
    status: str = "AVAILABLE"
    battery: float = 100.0
    next_ping: float = 0.0


@dataclass
class City:
    """The city from second 0 on, tick by tick."""

    seed: int
    _random: random.Random = field(init=False)
    _drivers: list[_Driver] = field(init=False)
    _orders: int = 0

    def __post_init__(self) -> None:
        """Put the drivers on the map."""
        self._random = random.Random(self.seed)  # noqa: S311 - a simulation wants to be repeatable
        self._drivers = [self._driver(number) for number in range(DRIVERS)]

    def tick(self, number: int) -> Iterator[Booking | Ping]:
        """Yield what arrives during tick `number`, in order of arrival; call it in order, from 0."""
        now = number * TICK_S
        for _ in range(self._poisson(bookings_per_s(now) * TICK_S)):
            yield self.booking(self._moment(now))
        if CONCERT_S[0] <= now < CONCERT_S[1]:
            yield self._leave_concert(now)
        for driver in self._drivers:
            if driver.next_ping <= now:
                driver.next_ping = now + PING_EVERY_S * self._random.uniform(0.8, 1.2)
                yield self._ping(driver, self._moment(now))

    def booking(self, second: float) -> Booking:
        """Make a booking at some hot spot."""
        spot = self._random.choices(SPOTS, [spot.share for spot in SPOTS])[0]
        vehicle = self._choice(VEHICLES)
        status = self._choice(STATUSES)
        latitude, longitude = self._near(spot)
        self._orders += 1
        return Booking(
            second=second,
            order_number=f"order-{self.seed}-{self._orders:06d}",
            status=status,
            city_id=spot.city_id,
            vehicle_type=vehicle,
            latitude=latitude,
            longitude=longitude,
            driver_id="" if status == "CREATED" else self._random.choice(self._drivers).id,
            amount=round(FARES[vehicle] * self._random.uniform(0.8, 3.0), 2),
        )

    def completed_booking(self, second: float) -> Booking:
        """Make a completed booking."""
        return replace(self.booking(second), status="COMPLETED")

    def _leave_concert(self, now: float) -> Booking:
        """Make a completed booking at the gate of the stadium."""
        stadium = next(spot for spot in SPOTS if spot.name == "stadium")
        booking = self.completed_booking(self._moment(now))
        return replace(
            booking,
            vehicle_type="car",
            city_id=stadium.city_id,
            latitude=stadium.latitude,
            longitude=stadium.longitude,
        )

    def ping(self, second: float) -> Ping:
        """Make a ping of some driver."""
        return self._ping(self._random.choice(self._drivers), second)

    def _ping(self, driver: _Driver, second: float) -> Ping:
        step = 0.0004 if driver.status == "AVAILABLE" else 0.0015
        driver.latitude += self._random.gauss(0, step) + (driver.spot.latitude - driver.latitude) * 0.02
        driver.longitude += self._random.gauss(0, step) + (driver.spot.longitude - driver.longitude) * 0.02
        driver.battery = max(5.0, driver.battery - self._random.uniform(0, 0.05))
        if self._random.random() < 0.08:
            following = {"AVAILABLE": "PICKING_UP", "PICKING_UP": "ON_TRIP", "ON_TRIP": "AVAILABLE"}
            driver.status = following[driver.status]
        return Ping(
            second=second,
            driver_id=driver.id,
            status=driver.status,
            latitude=driver.latitude,
            longitude=driver.longitude,
            vehicle_type=driver.vehicle_type,
            speed_kmh=round(self._random.uniform(0, 45), 1),
            battery_percent=round(driver.battery),
        )

    def _driver(self, number: int) -> _Driver:
        spot = self._random.choices(SPOTS, [spot.share for spot in SPOTS])[0]
        latitude, longitude = self._near(spot)
        return _Driver(
            id=f"driver-{number:04d}",
            spot=spot,
            vehicle_type=self._choice(VEHICLES),
            latitude=latitude,
            longitude=longitude,
            next_ping=self._random.uniform(0, PING_EVERY_S),
        )

    def _moment(self, now: float) -> float:
        """Event time of what arrives now: a little earlier, never before the start."""
        return max(0.0, round(now - self._random.uniform(0, OUT_OF_ORDER_S), 3))

    def _near(self, spot: Spot) -> tuple[float, float]:
        return (
            self._random.gauss(spot.latitude, SPREAD_DEGREES),
            self._random.gauss(spot.longitude, SPREAD_DEGREES),
        )

    def _choice(self, weights: dict[str, float]) -> str:
        return self._random.choices(list(weights), list(weights.values()))[0]

    def _poisson(self, mean: float) -> int:
        """Draw how many of something happen, when `mean` do on average."""
        limit, count, product = math.exp(-mean), 0, self._random.random()
        while product > limit:
            count += 1
            product *= self._random.random()
        return count


def bookings_per_s(second: float) -> float:
    """Return how busy the city is at a second after the start."""
    hour = 24.0 * (second % DAY_S) / DAY_S
    rush = max(math.exp(-(((hour - peak) / 2.0) ** 2)) for peak in RUSH_HOURS)
    return CALM_BOOKINGS_PER_S + (RUSH_BOOKINGS_PER_S - CALM_BOOKINGS_PER_S) * rush
