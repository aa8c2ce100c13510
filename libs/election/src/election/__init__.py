"""Leader election on a log: candidates claim, read the claim back, and beat while they lead."""

from election.election import Beats, Election, Holder, LeadershipLost, Office
from election.identity import host_name, identity, proven_dead

__all__ = ["Beats", "Election", "Holder", "LeadershipLost", "Office", "host_name", "identity", "proven_dead"]
