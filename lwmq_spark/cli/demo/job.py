"""Delays per carrier and hour: once in Spark, over the live stream, and once in pandas, to compare."""

from __future__ import annotations

from typing import Any

from lwmq_spark.cli.demo import data

KEYS = ["origin", "year", "month", "day", "hour"]


def dimensions(spark: Any) -> tuple[Any, Any]:
    """Airlines and weather as DataFrames, made once."""
    airlines = spark.createDataFrame(data.airlines().to_pandas()).withColumnRenamed("name", "airline")
    return airlines, spark.createDataFrame(data.weather().to_pandas())


def delays(flights: Any, airlines: Any, weather: Any) -> Any:
    """The Spark job: joins airlines and weather, then aggregates."""
    from pyspark.sql import functions as F

    return (
        flights.join(F.broadcast(airlines), "carrier")
        .join(F.broadcast(weather), KEYS)
        .groupBy("airline", "hour")
        .agg(
            F.count("*").alias("flights"),
            F.avg("dep_delay").alias("departure_delay"),
            F.avg("arr_delay").alias("arrival_delay"),
            F.avg("wind_speed").alias("wind_speed"),
        )
    )


def delays_by_pandas() -> Any:
    """The same, on the same data, by pandas."""
    airlines = data.airlines().to_pandas().rename(columns={"name": "airline"})
    joined = (
        data.flights().to_pandas().merge(airlines, on="carrier").merge(data.weather().to_pandas(), on=KEYS)
    )
    grouped = joined.groupby(["airline", "hour"])
    return grouped.agg(
        flights=("carrier", "size"),
        departure_delay=("dep_delay", "mean"),
        arrival_delay=("arr_delay", "mean"),
        wind_speed=("wind_speed", "mean"),
    ).reset_index()


def same(result: dict[str, list[Any]]) -> bool:
    """Whether Spark's rows are those of pandas; means to nine digits, because sums run in another order."""
    import numpy as np
    import pandas as pd

    ours = pd.DataFrame(result).sort_values(["airline", "hour"], ignore_index=True)
    theirs = delays_by_pandas().sort_values(["airline", "hour"], ignore_index=True)
    exact = ["airline", "hour", "flights"]
    if len(ours) != len(theirs) or not all((ours[name] == theirs[name]).all() for name in exact):
        return False
    means = ["departure_delay", "arrival_delay", "wind_speed"]
    return all(
        np.allclose(ours[name].astype(float), theirs[name], rtol=1e-9, atol=1e-9, equal_nan=True)
        for name in means
    )
