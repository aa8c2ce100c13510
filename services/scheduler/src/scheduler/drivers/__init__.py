"""Keeps drivers as processes of this host: starts, finds, adopts, watches and ends them, and sweeps."""
