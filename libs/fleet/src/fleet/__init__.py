"""The pure fold of the control topic: what was asked, what is observed, and what to do next.

fold       folds records: daggers, requests, facts, the catalogue; and how that is read and shown
health     judges drivers by their heartbeats: reasons, warnings, rates, and what to do about it
decide     decides the next action about a dagger, from the fold and what is observed
alerts     folds the alerts topic
snapshot   makes keyed entries of a fleet, and a fleet of them
"""

from fleet.fold.answers import Answer, Code, Refusal
from fleet.fold.catalogue import Entry
from fleet.fold.dagger import Dagger
from fleet.fold.fleet import ApplyResult, Fleet, Leader, UnreadableRecord, about

__all__ = [
    "Answer",
    "ApplyResult",
    "Code",
    "Dagger",
    "Entry",
    "Fleet",
    "Leader",
    "Refusal",
    "UnreadableRecord",
    "about",
]
