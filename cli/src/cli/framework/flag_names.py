"""What the API calls a field, as the user wrote it: a flag of the command line."""

from collections.abc import Mapping


def flag(field: str, names: Mapping[str, str]) -> str:
    """The flag that fills a field of a request, or what the field is a part of; the field when none does."""
    whole = field
    while field:
        if field in names:
            return names[field]
        field = field[: max(field.rfind("."), field.rfind("["), 0)]
    return whole
