"""Rows between Spark's stages as Arrow batches in memory.

    spark = lwmq.session("app", exchange=True)

From then on joins, aggregations, sorts and repartitions of this session exchange their rows that way. What
cannot stays with Spark's own shuffle, and the driver's log says why. `spark.lwmq.exchange.enabled=false`
turns it off for the queries that follow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lwmq_spark.errors import LwmqError
from lwmq_spark.spark.session import MANAGER, MANAGER_KEY, is_connect

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def exchange(frame: DataFrame, *keys: str | Column, partitions: int) -> DataFrame:
    """`frame.repartition(partitions, *keys)`, whose rows travel as Arrow batches for certain.

    Rows of equal keys come into one partition, the one into which Spark puts them.
    LwmqError says why they cannot: the session was made without `exchange=True`, no key was given, or a
    column has a type that Arrow cannot hold bit by bit.
    """
    moved = frame.repartition(partitions, *keys)
    refusal = _refusal(moved)
    if refusal:
        raise LwmqError(f"this exchange stays with Spark's shuffle: {refusal}")
    return moved


def _refusal(moved: DataFrame) -> str:
    """Why the exchange on top of `moved` is not ours; "": it is."""
    manager = moved.sparkSession.conf.get(MANAGER_KEY, None)
    if manager != MANAGER:
        return f"{MANAGER_KEY} is {manager or 'not set'}; lwmq.session(exchange=True) sets {MANAGER}"
    if is_connect(moved):
        return ""  # its plan is made by the server, which logs the reason
    jvm: Any = moved.sparkSession._jvm
    text: str = jvm.org.lwmq.spark.shuffle.ExchangeRule.refusal(moved._jdf.queryExecution().sparkPlan())
    return text
