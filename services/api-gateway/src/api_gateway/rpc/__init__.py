"""Handlers of calls: one file per service, and shared code for lists, watches, registrations and removals."""
