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
"""How long a client may fail before somebody looks whether a fresh one would do better."""
_LOOK_AGAIN_S: Final = 10.0
_ANSWER_S: Final = 5.0
C = TypeVar("C")


@dataclass(frozen=True, slots=True)
class Spell:
    """A time in which a client has failed without a success between. Instants are monotonic seconds."""

    since: float | None = None
    """When it failed first; None while it does not."""
    looked: float | None = None
    """When somebody last looked beside it."""

    def fails(self, now: float) -> Spell:
        """The spell after one more failure."""
        return self if self.since is not None else Spell(now)

    def looks(self, now: float) -> Spell:
        """The spell after a look beside the client that changed nothing."""
        return replace(self, looked=now)

    def due(self, now: float, patience_s: float | None = None) -> bool:
        """Whether it is time to look whether a fresh client is answered; after `PATIENCE_S` by default."""
        if self.since is None or now - self.since < (PATIENCE_S if patience_s is None else patience_s):
            return False
        return self.looked is None or now - self.looked >= _LOOK_AGAIN_S


class Replaceable(Generic[C]):
    """A client that is another one after half a minute of failures beside a broker that answers. Thread-safe.

    Whoever uses `current` says what came of it, by `succeeded` or `failed`.
    """

    def __init__(
        self,
        make: Callable[[C | None], C],
        is_answered: Callable[[], bool],
        retire: Callable[[C], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`make` takes the client that is replaced, None at first; `retire` ends one that may not answer."""
        self._make, self._is_answered, self._retire, self._clock = make, is_answered, retire, clock
        self._spell = Spell()
        self._lock = threading.Lock()
        self._client = make(None)

    @property
    def current(self) -> C:
        """The client to be used now."""
        return self._client

    def succeeded(self) -> None:
        """The client was answered."""
        self._spell = Spell()

    def failed(self) -> bool:
        """The client was not answered. Whether it has been replaced; what it had in flight may be written."""
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
    """Whether a fresh client with these properties of librdkafka learns of a broker within 5 s."""
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
