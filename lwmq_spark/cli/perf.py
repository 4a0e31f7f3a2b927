"""`lwmq perf`: what one address does on this machine, from Python: latency, message rate, Arrow throughput.

The other side is a process of its own (`--peer`), started by us unless told otherwise. tests/bench/ has the
figures beside physical limits and rivals; this verb is for asking whether *here* is as fast as it should be.
"""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from rich.table import Table

from lwmq_spark.cli import _python, _rivals
from lwmq_spark.cli._output import JsonOption, console, emit
from lwmq_spark.errors import PeerLostError
from lwmq_spark.meter import human

_PATIENCE_S = 30.0
_LARGEST = 1 << 30
_STOP = b"stop"


def run(
    address: Annotated[str, typer.Argument(help="Such as ipc://perf; nobody else may use it meanwhile.")],
    message_bytes: Annotated[int, typer.Option(min=8, max=_LARGEST, help="Of each message.")] = 64,
    batch_bytes: Annotated[int, typer.Option(min=4096, max=_LARGEST, help="Of each Arrow batch.")] = 1 << 20,
    seconds: Annotated[float, typer.Option(min=0.05, max=86_400, help="Of each measurement.")] = 1.0,
    peer: Annotated[
        bool, typer.Option("--peer", help="Be the other side, started by hand elsewhere.")
    ] = False,
    alone: Annotated[bool, typer.Option("--alone", help="Start no peer: one is started by hand.")] = False,
    against: Annotated[
        str | None,
        typer.Option(help=f"Rivals to measure beside, by commas: {', '.join(_rivals.NAMES)}; or all."),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Measure one-way latency, message rate and Arrow throughput at ADDRESS between two processes.

    Both are Python processes, so our figures hold the cost of calls from Python. Each rival is labelled with
    the language that it is called from; ucx runs its own tool in C, which has no such cost.

    \b
    Examples:
      lwmq perf ipc://perf
      lwmq perf ipc://perf --message-bytes 1024 --batch-bytes 16777216 --json
      lwmq perf ipc://perf --against zmq,uds
      lwmq perf ipc:///shared/perf --peer      (in one container; --alone in the other)
    """
    from lwmq_spark.channel import limits
    from lwmq_spark.options import CHANNEL, parse_address

    parse_address(_stream_of(address))  # what a stream takes, too
    if "role" in parse_address(address, CHANNEL).options:
        raise typer.BadParameter(f"{address}: both sides open it, and agree on their roles: say none")
    if peer:
        _be_peer(address)
        return
    names = _rival_names(against)
    if not alone and limits(address).is_in_process:
        raise typer.BadParameter(
            f"{address} works within one process, and perf measures between two: say an ipc:// address"
        )
    with _peer_process(address, started=not alone):
        figures: dict[str, Any] = {
            "language": "Python",
            **_messages(address, message_bytes, seconds),
            **_batches(address, batch_bytes, seconds),
        }
    rivals: dict[str, dict[str, Any]] = {}
    for name in names:
        missing = _rivals.why_not(name)
        measured = {"missing": missing} if missing else _rivals.measure(name, message_bytes, seconds)
        rivals[name] = {"language": _rivals.LANGUAGE[name], **measured}
    if json:
        emit(address=address, **figures, **({"against": rivals} if names else {}))
        return
    table = Table(title=f"{address}, two Python processes", header_style="bold")
    for title in ("what", "figure"):
        table.add_column(title)
    table.add_row(f"one-way latency of {message_bytes} B, p50", f"{figures['latency_p50_us']:.2f} µs")
    table.add_row("p99", f"{figures['latency_p99_us']:.2f} µs")
    table.add_row("p99.9", f"{figures['latency_p999_us']:.2f} µs")
    table.add_row(f"messages of {message_bytes} B", human(figures["messages_per_second"], "/s"))
    table.add_row(
        f"Arrow batches of {human(batch_bytes, 'B')}", human(figures["batch_bytes_per_second"], "B/s")
    )
    console.print(table)
    if names:
        console.print(_comparison(address, message_bytes, {"ours": figures, **rivals}))


def _rival_names(against: str | None) -> list[str]:
    names = [] if against is None else list(_rivals.NAMES) if against == "all" else against.split(",")
    unknown = [name for name in names if name not in _rivals.NAMES]
    if unknown:
        raise typer.BadParameter(f"{', '.join(unknown)}: there are {', '.join(_rivals.NAMES)}, and all")
    return names


def _comparison(address: str, size: int, found: dict[str, dict[str, Any]]) -> Table:
    table = Table(title=f"messages of {size} B, beside {address}", header_style="bold")
    for title in ("who", "called from", "p50", "p99", "p99.9", "messages"):
        table.add_column(title)
    measured = {name: figures for name, figures in found.items() if "missing" not in figures}
    for name, figures in measured.items():
        cells = [f"{figures[f'latency_{rank}_us']:.2f} µs" for rank in ("p50", "p99", "p999")]
        table.add_row(name, figures["language"], *cells, human(figures["messages_per_second"], "/s"))
    notes = [f"{name}: {figures['missing']}" for name, figures in found.items() if name not in measured]
    if any(figures["language"] == "C" for figures in measured.values()):
        notes.append("C: the rival's own tool, without the cost of calls from Python")
    table.caption = "\n".join(notes) or None
    return table


@contextmanager
def _peer_process(address: str, *, started: bool) -> Iterator[None]:
    if not started:
        yield
        return
    peer = _python.start("-m", "lwmq_spark.cli", "perf", address, "--peer")

    def look(*_: object) -> None:
        if peer.poll():
            raise PeerLostError(f"the other side of {address} ended with {peer.returncode}")

    # The signal ends whatever we wait in by then, of which some would wait for ever.
    before = signal.signal(signal.SIGCHLD, look)
    try:
        look()
        yield
        peer.wait(_PATIENCE_S)
        look()
    finally:
        signal.signal(signal.SIGCHLD, before)
        if peer.poll() is None:
            peer.kill()
            peer.wait()


def _messages(address: str, size: int, seconds: float) -> dict[str, float]:
    """Ping-pong for the latency, then as many as go one way for the rate."""
    from lwmq_spark import Channel, ClosedError

    payload = bytes(size)
    with Channel(address) as channel:
        channel.wait_connected(_PATIENCE_S)
        queue = channel.send_queue()
        round_trips: list[int] = []
        warm_until = time.perf_counter() + 0.3 * seconds
        end = warm_until + seconds
        while (now := time.perf_counter()) < end or not round_trips:  # on a busy machine one takes longer
            before = time.perf_counter_ns()
            queue.post(payload)
            channel.receive(_PATIENCE_S)
            if now > warm_until:
                round_trips.append(time.perf_counter_ns() - before)
        # From here on the peer counts and does not answer; its answer to `stop` is the number it saw.
        queue.post(b"count")
        posted, begun = 0, time.perf_counter()
        while time.perf_counter() < begun + seconds or not posted:
            for _ in range(256):
                queue.post(payload)
            posted += 256
            channel.flush(_PATIENCE_S)
        queue.post(_STOP)
        seen = int(bytes(channel.receive(_PATIENCE_S)[0]))
        taken = time.perf_counter() - begun
        # The peer closes first: whoever closes waits until the other one has read its last message.
        with contextlib.suppress(ClosedError):
            channel.receive(_PATIENCE_S)
    round_trips.sort()

    def one_way(share: float) -> float:
        return round_trips[min(int(len(round_trips) * share), len(round_trips) - 1)] / 2000

    return {
        "latency_p50_us": one_way(0.5),
        "latency_p99_us": one_way(0.99),
        "latency_p999_us": one_way(0.999),
        "round_trips": len(round_trips),
        "messages_per_second": seen / taken,
        "messages_lost": posted - seen,
    }


def _batches(address: str, size: int, seconds: float) -> dict[str, float]:
    """Batches of one column of 64-bit integers, from this process to the peer, until it has read the last."""
    import numpy as np
    import pyarrow as pa

    import lwmq_spark as lwmq

    batch = pa.record_batch({"n": np.arange(size // 8)})
    with lwmq.open_writer(_stream_of(address), batch.schema, timeout=_PATIENCE_S) as writer:
        writer.write(batch)
        written, begun = 0, time.perf_counter()
        while time.perf_counter() < begun + seconds or not written:
            writer.write(batch)
            written += 1
        writer.close()
        taken = time.perf_counter() - begun
    return {"batches": written, "batch_bytes_per_second": written * batch.nbytes / taken}


def _be_peer(address: str) -> None:
    """Echoes messages, counts them, then reads batches and sums their first column."""
    import pyarrow.compute as pc

    import lwmq_spark as lwmq

    with lwmq.Channel(address) as channel:
        queue = channel.send_queue()
        while (payload := bytes(channel.receive(_PATIENCE_S)[0])) != b"count":
            queue.post(payload)
        seen = 0
        while bytes(channel.receive(_PATIENCE_S)[0]) != _STOP:
            seen += 1
        queue.post(str(seen).encode())
        channel.flush(_PATIENCE_S)
    with lwmq.open_reader(_stream_of(address), timeout=_PATIENCE_S) as reader:
        for batch in reader:
            pc.sum(batch.column(0))


def _stream_of(address: str) -> str:
    """A stream has an address of its own beside the channel's, and the same options."""
    text, mark, options = address.partition("?")
    return f"{text}-stream{mark}{options}"
