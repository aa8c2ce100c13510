"""Install the HDFS and YARN of tests."""

import sys

from tests import yarn
from tests.maven import LackingError

if __name__ == "__main__":
    try:
        yarn.install()
    except LackingError as why:
        sys.stderr.write(f"The YARN of tests is not installed, and its test is skipped: {why}\n")
