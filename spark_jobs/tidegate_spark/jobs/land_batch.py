"""The program that lands a batch; see `tidegate_spark.land_batch`."""

import sys

from tidegate_spark.land_batch import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
