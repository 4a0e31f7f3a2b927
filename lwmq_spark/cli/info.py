"""`lwmq info`: what is installed, who we are, what an address allows, and the state of a stream."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.table import Table

from lwmq_spark.cli._output import JsonOption, console, emit, human


def run(
    address: Annotated[str | None, typer.Argument(help="An address, such as ipc://flights.")] = None,
    stream: Annotated[
        bool, typer.Option("--stream", help="Ask whoever serves the address for its stream; reads nothing.")
    ] = False,
    timeout: Annotated[float, typer.Option(metavar="SECONDS", help="How long to wait for the stream.")] = 2.0,
    json: JsonOption = False,
) -> None:
    """Show versions, providers and this machine; with an address its limits, with --stream its stream.

    \b
    Examples:
      lwmq info
      lwmq info ipc://flights
      lwmq info ipc://flights --stream --json
    """
    figures: dict[str, Any] = library()
    if address is not None:
        figures["address"] = address
        from dataclasses import asdict

        from lwmq_spark.channel import limits

        figures["limits"] = asdict(limits(address))
        if stream:
            figures["stream"] = stream_state(address, timeout)
    if json:
        emit(**figures)
        return
    table = Table(show_header=False, box=None, pad_edge=False)
    for name, value in _lines(figures):
        table.add_row(name, value)
    console.print(table)


def library() -> dict[str, Any]:
    """What is installed and who we are."""
    from lwmq_spark import __version__
    from lwmq_spark._ffi import check, ffi, lib, sized
    from lwmq_spark.channel import providers

    identity = sized("lwmq_identity")
    check(lib.lwmq_identify(identity))
    return {
        "version": __version__,
        "library": ffi.string(lib.lwmq_version()).decode(),
        "protocol": lib.lwmq_protocol_version(),
        "providers": providers(),
        "host": ffi.string(identity.host).decode(),
        "boot": ffi.string(identity.boot_id).decode(),
        "network_namespace": identity.netns,
        "uid": identity.uid,
    }


def stream_state(address: str, timeout: float) -> dict[str, Any]:
    """The stream at `address`: schema, partitions, who is there. Consumes nothing."""
    import pyarrow as pa

    from lwmq_spark._ffi import check, ffi, lib
    from lwmq_spark.options import parse_address

    out = ffi.new("lwmq_stream_state **")
    check(lib.lwmq_stream_describe(parse_address(address).text.encode(), 0, round(timeout * 1000), out))
    state = out[0]
    try:
        schema = None
        if state.schema != ffi.NULL:
            schema = pa.ipc.read_schema(pa.py_buffer(bytes(ffi.buffer(state.schema, state.schema_bytes))))
        names = {
            lib.LWMQ_STREAM_UNDECLARED: "undeclared",
            lib.LWMQ_STREAM_OPEN: "open",
            lib.LWMQ_STREAM_ENDED: "ended",
        }
        return {
            "state": names.get(state.state, str(state.state)),
            "generation": bytes(ffi.buffer(state.generation)).hex(),
            "producers_open": state.producers_open,
            "readers_open": state.readers_open,
            "endpoint_pid": state.endpoint.pid,
            "partitions": [
                _partition(ffi, state.partitions[number]) for number in range(state.partition_count)
            ],
            "schema": {field.name: str(field.type) for field in schema} if schema is not None else None,
        }
    finally:
        lib.lwmq_stream_state_destroy(state)


def _partition(ffi: Any, partition: Any) -> dict[str, int]:
    """Every number that the library tells of a partition, under its own name."""
    return {name: int(getattr(partition, name)) for name, _ in ffi.typeof(partition).fields if name != "size"}


def _lines(figures: dict[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    lines: list[tuple[str, str]] = []
    for name, value in figures.items():
        title = f"{prefix}{name}".replace("_", " ")
        if isinstance(value, dict):
            lines += _lines(value, f"{title} ")
        elif isinstance(value, list):
            shown = [" ".join(f"{k}={v}" for k, v in item.items()) if isinstance(item, dict) else str(item)
                     for item in value]  # fmt: skip
            lines.append((title, ("\n" if value and isinstance(value[0], dict) else ", ").join(shown)))
        elif name.endswith("bytes_max"):
            lines.append((title, human(value, "B")))
        else:
            lines.append((title, str(value)))
    return lines
