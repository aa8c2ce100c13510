"""Decides what is to be done next about a dagger, from the fold and from what a scheduler observes."""
