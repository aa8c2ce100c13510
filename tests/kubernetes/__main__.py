"""Install the Kubernetes of tests."""

import sys

from tests import kubernetes
from tests.maven import LackingError

if __name__ == "__main__":
    try:
        kubernetes.install()
    except LackingError as why:
        sys.stderr.write(f"The Kubernetes of tests is not installed, and its test is skipped: {why}\n")
