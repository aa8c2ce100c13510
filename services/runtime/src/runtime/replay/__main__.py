"""`python -m runtime.replay`: one attempt of a replay, without a JVM."""

import sys

from runtime.replay.main import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
