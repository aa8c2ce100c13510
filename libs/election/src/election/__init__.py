"""Who leads: claim, beat, read back, proven dead."""

from election.election import Beats, Deposed, Election, Holder, Office
from election.identity import host_name, identity, proven_dead

__all__ = ["Beats", "Deposed", "Election", "Holder", "Office", "host_name", "identity", "proven_dead"]
