"""Sessions that know `format("lwmq")`, and streams inside `mapInArrow`.

Importing this package imports neither pyspark nor pyarrow: each name brings what it needs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lwmq_spark.spark.session import attach, configure, session

if TYPE_CHECKING:
    from lwmq_spark.spark.publish import PUBLISH_SCHEMA, publish, subscribe

__all__ = ["PUBLISH_SCHEMA", "attach", "configure", "publish", "session", "subscribe"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from lwmq_spark.spark import publish as module

    return getattr(module, name)
