"""Encodes a fleet as keyed entries, and makes a fleet of them again."""
