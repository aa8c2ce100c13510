"""Answers the calls: a service a file, and what lists, watches, registrations and removals share."""
