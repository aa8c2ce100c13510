"""Judges drivers by their heartbeats: what is wrong, whose it is, and what a dagger does now."""
