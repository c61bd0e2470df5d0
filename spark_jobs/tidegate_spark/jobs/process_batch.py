"""The program that processes a batch; see `tidegate_spark.process_batch`."""

import sys

from tidegate_spark.process_batch import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
