"""Holds what the log says: the fold, the tables behind it, heartbeats; reads wait for it, writes append."""
