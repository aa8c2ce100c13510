"""`python -m portal.tickets FILE`: print a path that lets a browser in once, by the key in a file."""

from __future__ import annotations

import secrets
import sys
import time
from pathlib import Path

from chassis import tickets

PATH = "/auth/key?key="


def main(words: list[str]) -> int:
    """Print the path; return the exit code."""
    if len(words) != 1:
        sys.stderr.write("python -m portal.tickets FILE: the file that DAGGERS_PORTAL_KEY_FILE names\n")
        return 2
    try:
        key = Path(words[0]).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        sys.stderr.write(f"{words[0]} cannot be read: {error}\n")
        return 2
    sys.stdout.write(f"{PATH}{tickets.issue_ticket(key, secrets.token_bytes(16), time.time())}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
