"""Install the Alertmanager of tests."""

import sys

from tests import alertmanager
from tests.maven import LackingError

if __name__ == "__main__":
    try:
        alertmanager.install()
    except LackingError as why:
        sys.stderr.write(f"The Alertmanager of tests is not installed, and its test is skipped: {why}\n")
