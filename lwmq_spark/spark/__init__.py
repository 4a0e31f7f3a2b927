"""Sessions that know `format("lwmq")`, and streams inside `mapInArrow` (in `publish`).

Importing this package imports neither pyspark nor pyarrow: each name brings what it needs.
"""

from __future__ import annotations

from lwmq_spark.spark.session import attach, configure, session

__all__ = ["attach", "configure", "session"]
