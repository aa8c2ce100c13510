"""Lints over the IR: queries that Spark can run, but whose rows mislead their readers."""
