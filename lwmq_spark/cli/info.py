"""`lwmq info`: what is installed, who we are, what an address allows, and the state of a stream."""

from __future__ import annotations

import shlex
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from lwmq_spark.cli._output import JsonOption, console, duration, emit
from lwmq_spark.meter import human

CONF = Path(__file__).resolve().parents[1] / "_conf"  # pages and conf files, beside the package


def run(
    address: Annotated[str | None, typer.Argument(help="An address, such as ipc://flights.")] = None,
    stream: Annotated[
        bool, typer.Option("--stream", help="Ask whoever serves the address for its stream; reads nothing.")
    ] = False,
    timeout: Annotated[
        float | None, typer.Option(metavar="TIME", parser=duration(), help="How long to wait for the stream.")
    ] = 2.0,
    flags: Annotated[
        bool, typer.Option("--flags", help="Only what a C or C++ compiler needs to find us.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Show an address: who serves it, its limits, with --stream its stream. Then versions and this machine.

    Processes of other users serve it unseen, unless you are root.

    \b
    Examples:
      lwmq info
      lwmq info ipc://flights
      lwmq info ipc://flights --stream --json
      g++ hello.cc $(lwmq info --flags)
    """
    if flags:
        print(compiler_flags())
        return
    if stream and address is None:
        raise typer.BadParameter("--stream asks whoever serves an address: say which, such as ipc://flights")
    figures: dict[str, Any] = {}
    if address is not None:
        figures = about(address)
        if stream:
            figures["stream"] = stream_state(address, timeout)
    figures |= library()
    if json:
        emit(**figures)
        return
    table = Table(show_header=False, box=None, pad_edge=False)
    for name, value in _lines(figures):
        table.add_row(name, value)
    console.print(table)


def compiler_flags() -> str:
    import lwmq_spark

    installed = Path(lwmq_spark.__file__).resolve().parent
    libraries = installed / "_lib"
    words = [f"-I{installed / '_include'}", f"-L{libraries}", f"-Wl,-rpath,{libraries}", "-llwmq"]
    return " ".join(shlex.quote(word) for word in words)


def about(address: str) -> dict[str, Any]:
    """What the address is, who of this host serves it, and what it allows. AddressError. Asks nobody."""
    from lwmq_spark.channel import limits
    from lwmq_spark.observer import Observer

    allowed = limits(address)
    scheme, place = _without_filters(address)
    return {
        "address": address,
        "provider": scheme,
        "reach": "within one process" if allowed.is_in_process else "between processes",
        "served_by": [
            {
                "pid": process.pid,
                "role": entry.role,
                "state": entry.state,
                "address": entry.address,  # of a stream: with its name
                "command": process.command,
            }
            for process in Observer().look()
            for entry in process.entries
            if entry.serves and _without_filters(entry.address) == (scheme, place)
        ],
        "limits": asdict(allowed),
    }


def _without_filters(address: str) -> tuple[str, str]:
    """Scheme and name of an address, without the filters before and the options behind."""
    scheme, _, name = address.partition("?")[0].partition("://")
    return scheme.rpartition("+")[2], name


def library() -> dict[str, Any]:
    """What is installed and who we are."""
    from lwmq_spark import __version__
    from lwmq_spark._ffi import check, ffi, lib, sized
    from lwmq_spark.channel import filters, providers

    identity = sized("lwmq_identity")
    check(lib.lwmq_identify(identity))
    return {
        "version": __version__,
        "library": ffi.string(lib.lwmq_version()).decode(),
        "conf": str(CONF),
        "protocol": lib.lwmq_protocol_version(),
        "providers": providers(),
        "filters": filters(),
        "host": ffi.string(identity.host).decode(),
        "boot": ffi.string(identity.boot_id).decode(),
        "network_namespace": identity.netns,
        "uid": identity.uid,
    }


def stream_state(address: str, timeout: float | None) -> dict[str, Any]:
    """The stream at `address`: schema, partitions, who is there. Consumes nothing."""
    from lwmq_spark.arrow.endpoint import describe

    state = describe(address, timeout, wait_declared=False)
    return {
        "state": state.state,
        "generation": state.generation,
        "retain": state.retain,
        "producers_open": state.producers_open,
        "readers_open": state.readers_open,
        "readers_stalled": state.readers_stalled,
        "readers_expelled": state.readers_expelled,
        "stalled_pid": state.stalled_pid,
        "endpoint_pid": state.endpoint.pid,
        "partitions": [asdict(partition) for partition in state.partitions],
        "schema": {field.name: str(field.type) for field in state.schema} if state.schema else None,
    }


def _lines(figures: dict[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    lines: list[tuple[str, str]] = []
    for name, value in figures.items():
        title = f"{prefix}{name}".replace("_", " ")
        if name == "served_by":
            who = [
                f"{one['address']}: process {one['pid']}, {one['role']}, {one['state']}: {one['command']}"
                for one in value
            ]
            lines.append((title, "\n".join(who) or "nobody whom you may look at"))
        elif isinstance(value, dict):
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
