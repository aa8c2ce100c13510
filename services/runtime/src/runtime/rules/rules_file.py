"""The file beside the checkpoints with what is remembered of a dagger's rules, and what may not be sent."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Callable, Sequence
from typing import Final

from daggers.v1 import rules_pb2
from google.protobuf.message import DecodeError

from chassis.logging import logger
from daggersql.rules.memory import Memory
from runtime.state.store import Place

FILE: Final = "alert-rules.json"


class RulesFile:
    """The file of one dagger. One that cannot be read or written costs what is in it, and ends no driver."""

    def __init__(self, root: Callable[[], Place], created: int) -> None:
        """root: directory of the dagger's checkpoints. created: of the dagger; what is remembered of another
        one counts as nothing.
        """
        self._root, self._created = root, created

    def read(self) -> tuple[Memory, list[rules_pb2.RuleObserved]]:
        """Read what is remembered, and the observations that may not have been sent."""
        try:
            return self._parse((self._root() / FILE).read_text())
        except FileNotFoundError:
            return Memory(), []
        except (OSError, ValueError, KeyError, TypeError, DecodeError) as problem:
            logger().warning("rules.memory_lost", why=repr(problem))
            return Memory(), []

    def _parse(self, text: str) -> tuple[Memory, list[rules_pb2.RuleObserved]]:
        """Parse the file. Raises: ValueError, KeyError, TypeError, DecodeError for what is no such file."""
        stored = json.loads(text)
        if stored["created"] != self._created:
            return Memory(), []
        waiting = [rules_pb2.RuleObserved.FromString(b64decode(one)) for one in stored["waiting"]]
        return Memory.from_json(stored["memory"]), waiting

    def write(self, memory: Memory, waiting: Sequence[rules_pb2.RuleObserved]) -> None:
        """Write what is remembered, and the observations that may not be sent yet."""
        sent = [b64encode(one.SerializeToString(deterministic=True)).decode() for one in waiting]
        stored = {"created": self._created, "memory": memory.to_json(), "waiting": sent}
        try:
            (self._root() / FILE).write_text(json.dumps(stored))
        except OSError as problem:  # a repeated batch observes the same again, by what was kept before
            logger().warning("rules.memory_not_kept", why=str(problem))
