"""Errors in words: the domain, the reason and the detail."""

from daggers.v1 import events_pb2

UNCHECKED = "whether its topics are there is not known: {}"
"""Note about a stream whose topics were not checked; takes the reason."""


def domain(of: events_pb2.ErrorDomain.ValueType) -> str:
    """Return the domain of an error in a word: USER, EXTERNAL, INTERNAL, or UNSPECIFIED."""
    return events_pb2.ErrorDomain.Name(of).removeprefix("ERROR_DOMAIN_")


def sentence(error: events_pb2.DaggerError) -> str:
    """Format an error as a sentence: domain, reason, detail."""
    return f"{domain(error.domain)} {error.reason}: {error.detail}"
