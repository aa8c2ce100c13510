"""Validation of requests: collects all problems at once, and builds the events for the log."""
