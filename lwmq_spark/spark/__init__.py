"""Spark sessions that know `format("lwmq")`, and streams inside `mapInArrow` (module `publish`).

Importing this package imports neither pyspark nor pyarrow; each function imports what it needs when called.
"""

from __future__ import annotations

from lwmq_spark.spark.session import attach, configure, session

__all__ = ["attach", "configure", "session"]
