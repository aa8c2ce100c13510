"""The pure fold of the control topic: what was asked, what is observed, and what to do next.

`Fleet` folds records and `fleet.dagger` is one dagger's life; `fleet.resolve` and `fleet.view` read the fold.
`fleet.ledger` is the fold of the alerts topic, and `fleet.alert` one alert.
"""

from fleet.answers import Answer, Code, Refusal
from fleet.catalogue import Entry
from fleet.dagger import Dagger
from fleet.fleet import Applied, Fleet, Leader, Unreadable, about

__all__ = [
    "Answer",
    "Applied",
    "Code",
    "Dagger",
    "Entry",
    "Fleet",
    "Leader",
    "Refusal",
    "Unreadable",
    "about",
]
