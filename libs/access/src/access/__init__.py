"""Who may do what. Pure: a principal, what it asks, and the fold of the control topic make a decision.

`may` decides about one action and one team; `methods.METHODS` says, for every method of the gateway, which
action it is, whose things a request is about, and what of an answer is shown to whom.
"""

from access.decision import Action, Decision, may
from access.principal import Principal

__all__ = ["Action", "Decision", "Principal", "may"]
