"""The result as people look at it: a table and a plot in the terminal, and a PNG."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lwmq_spark.cli._output import console

_STEPS = (0, 10, 20, 40)  # minutes from which the next shade is meant
_SHADES = " ░▒▓█"
_COLOURS = ("green", "green", "yellow", "dark_orange", "red")


def draw(delays: Any, plot: Path, *, quiet: bool) -> None:
    """Draws the delays per carrier and hour; only the PNG when `quiet`."""
    _heat_map(delays, plot)
    if not quiet:
        console.print(_table(delays))
        console.print(_cells(delays))


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


def _cells(delays: Any) -> Any:
    """The plot for a terminal: a cell per airline and hour, the darker the later."""
    from rich.table import Table
    from rich.text import Text

    hours = sorted(delays["hour"].unique())
    table = Table(title="mean departure delay by hour", box=None, padding=0, pad_edge=False)
    table.add_column("", no_wrap=True)
    for hour in hours:
        table.add_column(f"{int(hour):02d}", width=2)
    for airline, rows in sorted(delays.groupby("airline"), key=lambda pair: -_mean(pair[1])):
        known = {
            row.hour: row.departure_delay
            for row in rows.itertuples()
            if row.departure_delay == row.departure_delay
        }
        cells = [Text(_SHADES[0] * 2) if hour not in known else _shade(known[hour]) for hour in hours]
        table.add_row(f"{airline} ", *cells)
    legend = "  ".join(f"{shade * 2} from {low} min" for low, shade in zip(_STEPS, _SHADES[1:], strict=True))
    table.caption = legend
    return table


def _shade(minutes: float) -> Any:
    from rich.text import Text

    step = sum(minutes >= low for low in _STEPS)
    return Text(_SHADES[step] * 2, style=_COLOURS[step])


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
