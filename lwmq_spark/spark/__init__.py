"""Sessions that know `format("lwmq")`, and streams inside `mapInArrow`.

Importing this package does not import pyspark.
"""

from __future__ import annotations

from lwmq_spark.spark.publish import PUBLISH_SCHEMA, publish, subscribe
from lwmq_spark.spark.session import attach, configure, session

__all__ = ["PUBLISH_SCHEMA", "attach", "configure", "publish", "session", "subscribe"]
