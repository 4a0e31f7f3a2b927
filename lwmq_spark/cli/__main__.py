"""`python -m lwmq_spark.cli`, where the command `lwmq` is not on the path."""

import sys

from lwmq_spark.cli import main

sys.exit(main())
