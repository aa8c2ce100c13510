"""Asks schedulers for what their hosts know: logs, rows, samples, tests of sinks, previews, reads."""
