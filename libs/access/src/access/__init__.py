"""Access control. Pure: a principal, its request, and the fold of the control topic make a decision.

`may` decides about one action and one team; `methods.METHODS` has, for every method of the gateway, which
action it is, which teams a request is about, and the view that each principal gets of an answer.
"""

from access.decision import Action, Decision, may
from access.principal import Principal

__all__ = ["Action", "Decision", "Principal", "may"]
