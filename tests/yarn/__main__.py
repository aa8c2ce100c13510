"""Install the mini cluster of HDFS and YARN."""

import sys

from tests import yarn
from tests.maven import LackingError

if __name__ == "__main__":
    try:
        yarn.install()
    except LackingError as why:
        sys.exit(f"no YARN for tests: {why}")
