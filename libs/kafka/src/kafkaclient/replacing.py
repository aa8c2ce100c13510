"""Replaces a client that fails for half a minute beside a broker that answers a fresh one.

librdkafka forgets every broker when a Metadata response names topics and no broker, and asks nobody any more:
"Failed while waiting for controller", for as long as the client lives (its issue 5301, unrepaired in 2.16). A
broker that has lost its lease answers so; a node that is its own controller loses it when its host gives it
no processor time for `broker.session.timeout.ms`.

    Spell        how long something has failed, and when it is time to look beside it; pure
    Replaceable  a client of librdkafka in its place, and the next one
    answers      whether a fresh client is answered

For clients of aiokafka see `behind`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Generic, TypeVar

from confluent_kafka import Consumer, KafkaException
from confluent_kafka.admin import AdminClient

PATIENCE_S: Final = 30.0
"""Failing for so long, a client is compared with a fresh one, and replaced if that one is answered."""
_LOOK_AGAIN_S: Final = 10.0
_ANSWER_S: Final = 5.0
C = TypeVar("C")


@dataclass(frozen=True, slots=True)
class Spell:
    """A time in which a client has failed without a success between. Instants are monotonic seconds."""

    since: float | None = None
    """Instant of the first failure; None without one."""
    last_comparison: float | None = None
    """Instant at which a fresh client was last tried, and was not answered either."""

    def fails(self, now: float) -> Spell:
        """Return the spell after one more failure."""
        return self if self.since is not None else Spell(now)

    def looks(self, now: float) -> Spell:
        """Return the spell after a comparison with a fresh client that was not answered either."""
        return replace(self, last_comparison=now)

    def due(self, now: float, patience_s: float | None = None) -> bool:
        """Tell whether a fresh client is to be tried: after `PATIENCE_S` by default, then every 10 s."""
        if self.since is None or now - self.since < (PATIENCE_S if patience_s is None else patience_s):
            return False
        return self.last_comparison is None or now - self.last_comparison >= _LOOK_AGAIN_S


class Replaceable(Generic[C]):
    """A client that is replaced after half a minute of failures beside a broker that answers. Thread-safe.

    Whoever uses `current` reports what came of it, by `note_success` or `note_failure`.
    """

    def __init__(
        self,
        make: Callable[[C | None], C],
        is_answered: Callable[[], bool],
        retire: Callable[[C], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Make the first client.

        make: makes a client; takes the one that is replaced, None at first.
        is_answered: tells whether a fresh client is answered.
        retire: ends a client that may not answer any more.
        """
        self._make, self._is_answered, self._retire, self._clock = make, is_answered, retire, clock
        self._spell = Spell()
        self._lock = threading.Lock()
        self._client = make(None)

    @property
    def current(self) -> C:
        """Return the client to use now."""
        return self._client

    def note_success(self) -> None:
        """Note that the client was answered."""
        self._spell = Spell()

    def note_failure(self) -> bool:
        """Note that the client was not answered, and replace it if that is due.

        Returns whether it was replaced; what the old one had in flight may be written all the same.
        """
        with self._lock:
            now = self._clock()
            self._spell = self._spell.fails(now)
            if not self._spell.due(now):
                return False
            if not self._is_answered():
                self._spell = self._spell.looks(self._clock())
                return False
            stuck, self._client = self._client, self._make(self._client)
            self._spell = Spell()
        self._retire(stuck)
        return True


def answers(properties: Mapping[str, Any]) -> bool:
    """Tell whether a fresh client with these properties of librdkafka learns of a broker within 5 s."""
    own = {name: value for name, value in properties.items() if not callable(value)}
    fresh = AdminClient({**own, "log_level": 0})
    try:
        return bool(fresh.list_topics(timeout=_ANSWER_S).brokers)
    except KafkaException:
        return False
    finally:
        discard(fresh)
        del fresh


def discard(client: Any) -> None:
    """End a client of librdkafka without waiting for it: one that is stuck may not end."""

    def end(client: Any) -> None:
        if isinstance(client, Consumer):
            client.close()
        # Any other ends with the last reference to it, which is this one.

    threading.Thread(target=end, args=(client,), name="kafka-discard", daemon=True).start()
