"""`python -m tests.integration.unprivileged`: a gateway as the user nobody.

It imports first and gives up its rights then: the interpreter may lie where nobody else may look.
"""

import concurrent.futures.thread
import encodings.idna
import os
import pwd
import sqlite3
import sys

import sqlalchemy.dialects.sqlite

import api_gateway.__main__

LOADED = (concurrent.futures.thread, encodings.idna, sqlite3, sqlalchemy.dialects.sqlite)


def main() -> int:
    """As `python -m api_gateway`."""
    nobody = pwd.getpwnam("nobody")
    os.setgroups([])
    os.setgid(nobody.pw_gid)
    os.setuid(nobody.pw_uid)
    return api_gateway.__main__.main()


if __name__ == "__main__":
    sys.exit(main())
