"""`python -m runtime.sparkhome PLACE`: the first name of `runtime.appcds_home`, which images still start."""

import sys

from runtime import appcds_home

if __name__ == "__main__":
    sys.exit(appcds_home.main(sys.argv[1:]))
