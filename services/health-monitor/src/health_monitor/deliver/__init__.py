"""Delivers notifications to receivers, and records the outcome of every attempt."""
