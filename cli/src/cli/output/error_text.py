"""Why something went wrong, in words: whose error it is, and all of it in a sentence."""

from daggers.v1 import events_pb2

UNCHECKED = "whether its topics are there is not known: {}"
"""Of a stream; with why."""


def domain(of: events_pb2.ErrorDomain.ValueType) -> str:
    """Whose error it is, in a word: USER, EXTERNAL, INTERNAL; UNSPECIFIED where nobody said."""
    return events_pb2.ErrorDomain.Name(of).removeprefix("ERROR_DOMAIN_")


def sentence(error: events_pb2.DaggerError) -> str:
    """Whose error it is, its reason, and what happened."""
    return f"{domain(error.domain)} {error.reason}: {error.detail}"
