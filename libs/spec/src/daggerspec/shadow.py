"""State that a shadow writes for the scheduler of its host (`rundir.SHADOW`, ADR 109). Pure."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ShadowState:
    """The progress of a shadow. Event times are in us since 1970, 0 for none."""

    caught_up: bool = False
    """True if it is as far as the driver beside it, but for one batch: a boundary may be decided."""
    written: int = 0
    """The checkpoint of that driver says that all windows which end up to this are written."""
    closed: int = 0
    """It has let go of windows that end up to this; never of one that is not written."""
    next_end: int = 0
    """The boundary that it would choose: the end of a window behind both, which it has all records of."""
    holds: int = 0
    """Up to where the batch closes windows that it holds, as they are not written; 0: it holds none."""
    final: bool = False
    """True if that driver was proven dead before `written` was read: `written` is final."""
    has_taken_over: bool = False
    """True if it was handed over, has the lease, and writes."""

    def as_json(self) -> str:
        """Format the text of its file."""
        fields = asdict(self)
        fields["taken"] = fields.pop("has_taken_over")  # the file's key, which other versions read
        return json.dumps(fields) + "\n"

    @classmethod
    def from_json(cls, text: str) -> ShadowState:
        """Parse the text of its file; fields that later versions add are ignored. Raises: ValueError."""
        try:
            fields = json.loads(text)
            return cls(
                caught_up=fields.get("caught_up") is True,
                written=int(fields["written"]),
                closed=int(fields["closed"]),
                next_end=int(fields["next_end"]),
                holds=int(fields["holds"]),
                final=fields.get("final") is True,
                has_taken_over=fields.get("taken") is True,
            )
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise ValueError(f"it is no state of a shadow: {text[:200]}") from error
