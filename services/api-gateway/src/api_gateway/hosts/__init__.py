"""Calls to the schedulers of drivers' hosts: logs, rows, samples, tests of sinks, previews, planned reads."""
