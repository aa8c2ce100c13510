"""Names of fields as the user wrote them: flags of the command line."""

from collections.abc import Mapping


def flag(field: str, names: Mapping[str, str]) -> str:
    """Return the flag that fills a field of a request, or its parent; the field itself where no flag does."""
    whole = field
    while field:
        if field in names:
            return names[field]
        field = field[: max(field.rfind("."), field.rfind("["), 0)]
    return whole
