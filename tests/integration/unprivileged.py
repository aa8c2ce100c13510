"""`python -m tests.integration.unprivileged`: a gateway as the user nobody.

It imports and reads first and gives up its rights then: interpreter and checkout may lie where nobody else
may look. So it cannot start another interpreter either, and checks queries in its own threads.
"""

import concurrent.futures.thread
import encodings.idna
import os
import pwd
import sqlite3
import sys
from contextlib import nullcontext
from importlib.metadata import version

import sqlalchemy.dialects.sqlite

import api_gateway.__main__
import chassis.metrics
from api_gateway.state import snapshots
from api_gateway.validate.query_check_pool import in_thread

LOADED = (concurrent.futures.thread, encodings.idna, sqlite3, sqlalchemy.dialects.sqlite)


def main() -> int:
    """As `python -m api_gateway`."""
    nobody = pwd.getpwnam("nobody")
    versions = {"api-gateway": version("api-gateway")}
    snapshots.code_digest()
    os.setgroups([])
    os.setgid(nobody.pw_gid)
    os.setuid(nobody.pw_uid)
    vars(chassis.metrics)["version"] = versions.__getitem__
    vars(api_gateway.__main__)["check_processes"] = lambda **_: nullcontext(in_thread)
    return api_gateway.__main__.main()


if __name__ == "__main__":
    sys.exit(main())
