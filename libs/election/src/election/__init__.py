"""Leader election on a log: candidates claim, read the claim back, and beat while they lead."""

from election.election import Beats, Election, ElectionEvents, Holder, LeadershipLost
from election.identity import host_name, identity, proven_dead

__all__ = [
    "Beats",
    "Election",
    "ElectionEvents",
    "Holder",
    "LeadershipLost",
    "host_name",
    "identity",
    "proven_dead",
]
