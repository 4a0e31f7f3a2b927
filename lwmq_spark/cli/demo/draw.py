"""The result as people look at it: a table and a plot in the terminal, and a PNG."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lwmq_spark.cli._output import console

_HOURS = range(24)
_LATEST = 40  # minutes: beyond that the plots tell no difference
_SHADES = {"··": "early", "░░": "0 to 9", "▒▒": "10 to 19", "▓▓": "20 to 39", "██": "40 and more"}
_STEPS = (0, 10, 20, _LATEST)  # minutes from which the next shade is meant
_COLOURS = ("green", "green", "yellow", "dark_orange", "red")


def draw(delays: Any, plot: Path, *, quiet: bool) -> None:
    """Draws the delays per carrier and hour; only the PNG when `quiet`."""
    plot.parent.mkdir(parents=True, exist_ok=True)
    heat_map(delays).savefig(plot, dpi=120)
    if not quiet:
        console.print(table(delays))
        console.print(cells(delays))


def _latest_first(delays: Any) -> list[tuple[str, Any]]:
    """Each airline and its rows."""
    return sorted(delays.groupby("airline"), key=lambda pair: -_mean(pair[1]))


def table(delays: Any) -> Any:
    """Of each airline: its flights, their mean delay, and the hour in which that is the longest."""
    from rich.table import Table

    table = Table(title="New York departures 2013, by mean delay", header_style="bold")
    table.add_column("airline")
    for title in ("flights", "mean delay (min)", "worst hour"):
        table.add_column(title, justify="right")
    for airline, rows in _latest_first(delays):
        worst = rows.loc[rows["departure_delay"].idxmax()] if rows["departure_delay"].notna().any() else None
        hour = "" if worst is None else f"{int(worst['hour']):02d}:00  {worst['departure_delay']:5.1f}"
        table.add_row(airline, f"{int(rows['flights'].sum()):,}", f"{_mean(rows):.1f}", hour)
    return table


def _mean(rows: Any) -> float:
    known = rows[rows["departure_delay"].notna()]
    flights = known["flights"].sum()
    return float((known["departure_delay"] * known["flights"]).sum() / flights) if flights else 0.0


def cells(delays: Any) -> Any:
    """The plot for a terminal: a cell per airline and hour, the darker the later; it takes 77 columns."""
    from rich.table import Table
    from rich.text import Text

    minutes = "  ".join(f"{shade} {meant}" for shade, meant in _SHADES.items())
    table = Table(title="mean departure delay by scheduled hour", box=None, padding=0, pad_edge=False)
    table.caption = f"minutes: {minutes}\nblank: no departures"
    table.add_column("", no_wrap=True)
    for hour in _HOURS:  # a number for each would run into the next
        table.add_column("" if hour % 3 else f"{hour:02d}", width=2)
    for airline, rows in _latest_first(delays):
        known = rows[rows["departure_delay"].notna()].set_index("hour")["departure_delay"]
        shades = [_shade(known[hour]) if hour in known.index else Text("  ") for hour in _HOURS]
        table.add_row(f"{airline} ", *shades)
    return table


def _shade(minutes: float) -> Any:
    from rich.text import Text

    step = sum(minutes >= low for low in _STEPS)
    return Text(list(_SHADES)[step], style=_COLOURS[step])


def heat_map(delays: Any) -> Any:
    """The plot as a figure of matplotlib."""
    from matplotlib import colormaps
    from matplotlib.figure import Figure

    grid = delays.pivot(index="airline", columns="hour", values="departure_delay")
    grid = grid.reindex(index=[airline for airline, _ in _latest_first(delays)], columns=_HOURS)
    figure = Figure(figsize=(11, 5.5), layout="constrained")
    axes = figure.add_subplot()
    colours = colormaps["viridis"].with_extremes(bad="white", under="lightgray", over="red")
    image = axes.imshow(grid, aspect="auto", cmap=colours, vmin=0, vmax=_LATEST)
    axes.set_xticks(_HOURS, [f"{hour:02d}" for hour in _HOURS])
    axes.set_yticks(range(len(grid.index)), list(grid.index))
    axes.set_xlabel("scheduled hour of departure (white cells: no departures)")
    axes.set_title("Mean departure delay from New York, 2013")
    bar = figure.colorbar(image, ax=axes, extend="both")
    bar.set_label(f"minutes (gray: early, red: {_LATEST} to {grid.max(axis=None):.0f})")
    return figure
