"""The result as people look at it: a table and a plot in the terminal, and a PNG."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lwmq_spark.cli._output import console


def draw(delays: Any, plot: Path, *, quiet: bool) -> None:
    """Draws the delays per carrier and hour; only the PNG when `quiet`."""
    _heat_map(delays, plot)
    if not quiet:
        console.print(_table(delays))
        _bars(delays)


def _table(delays: Any) -> Any:
    from rich.table import Table

    table = Table(title="New York departures 2013, by mean delay", header_style="bold")
    table.add_column("airline")
    for title in ("flights", "mean delay (min)", "worst hour"):
        table.add_column(title, justify="right")
    for airline, rows in sorted(delays.groupby("airline"), key=lambda pair: -_mean(pair[1])):
        worst = rows.loc[rows["departure_delay"].idxmax()] if rows["departure_delay"].notna().any() else None
        hour = "" if worst is None else f"{int(worst['hour']):02d}:00  {worst['departure_delay']:5.1f}"
        table.add_row(airline, f"{int(rows['flights'].sum()):,}", f"{_mean(rows):.1f}", hour)
    return table


def _mean(rows: Any) -> float:
    known = rows[rows["departure_delay"].notna()]
    flights = known["flights"].sum()
    return float((known["departure_delay"] * known["flights"]).sum() / flights) if flights else 0.0


def _bars(delays: Any) -> None:
    import plotext

    by_hour = [(int(hour), _mean(rows)) for hour, rows in delays.groupby("hour")]
    plotext.simple_bar(
        [f"{hour:02d}:00" for hour, _ in by_hour],
        [round(mean, 1) for _, mean in by_hour],
        width=min(console.width, 78),
        title="mean departure delay by hour (minutes)",
    )
    plotext.show()


def _heat_map(delays: Any, plot: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    grid = delays.pivot(index="airline", columns="hour", values="departure_delay")
    figure, axes = pyplot.subplots(figsize=(10, 5), layout="constrained")
    image = axes.imshow(grid, aspect="auto", cmap="viridis", vmin=0, vmax=60)
    axes.set_xticks(range(len(grid.columns)), [f"{hour:02d}" for hour in grid.columns])
    axes.set_yticks(range(len(grid.index)), list(grid.index))
    axes.set_xlabel("scheduled hour of departure")
    axes.set_title("Mean departure delay from New York, 2013 (minutes)")
    figure.colorbar(image, ax=axes)
    plot.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(plot, dpi=120)
    pyplot.close(figure)
