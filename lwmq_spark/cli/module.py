"""`lwmq module`: providers and filters from outside, and the signatures without which they are not loaded."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

import typer

from lwmq_spark._ffi import check, ffi, lib, sized
from lwmq_spark.cli._output import JsonOption, emit

app = typer.Typer(
    help="Modules: make a key, sign, verify, list. See lwmq.h for $LWMQ_MODULE_PATH and the trust file.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


def _text(raw: Any) -> str:
    return str(ffi.string(raw).decode("utf-8", "replace"))


def _as_dict(view: Any) -> dict[str, Any]:
    expires = datetime.fromtimestamp(view.expires_s, UTC).isoformat() if view.expires_s else None
    return {
        "path": _text(view.path),
        "loaded": bool(view.loaded),
        "status": _text(lib.lwmq_status_name(view.status)),
        "name": _text(view.name),
        "key": _text(view.key),
        "signer": _text(view.signer),
        "expires": expires,
        "text": _text(view.text),
    }


@app.command()
def key(
    file: Annotated[str, typer.Argument(help="Where the secret key goes; it must not be there yet.")],
    name: Annotated[str, typer.Option(help="Whose key it is, as in the trust file.")] = "me",
    json: JsonOption = False,
) -> None:
    """Make a key to sign modules with, and print the line for the trust file of those who are to trust it.

    \b
    Examples:
      lwmq module key my.key --name alice | sudo tee -a /etc/lwmq/trusted_keys
    """
    public = ffi.new("char[72]")
    check(lib.lwmq_module_make_key(os.fsencode(file), public))
    if json:
        emit(file=file, key=_text(public), name=name)
    else:
        print(f"ed25519 {_text(public)} {name}")


@app.command()
def sign(
    module: Annotated[str, typer.Argument(help="The shared object.")],
    key: Annotated[str, typer.Option(help="The file of `lwmq module key`.")],
    days: Annotated[float, typer.Option(help="For how long the signature is good.")] = 365.0,
    json: JsonOption = False,
) -> None:
    """Sign MODULE: writes MODULE.sig beside it. It names the module, so that both keep their names."""
    expires = datetime.now(UTC) + timedelta(days=days)
    check(lib.lwmq_module_sign(os.fsencode(module), os.fsencode(key), max(0, int(expires.timestamp()))))
    if json:
        emit(module=module, signature=f"{module}.sig", expires=expires.isoformat())
    else:
        print(f"{module}.sig, good until {expires:%Y-%m-%d}")


@app.command()
def verify(
    module: Annotated[str, typer.Argument(help="The shared object.")],
    trust: Annotated[
        str | None, typer.Option(help="The trust file; default $LWMQ_MODULE_TRUST or /etc/lwmq/trusted_keys.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Say whether MODULE would be loaded, without loading it; code 1 where not."""
    view = sized("lwmq_module_view")
    status = lib.lwmq_module_verify(
        os.fsencode(Path(module)), ffi.NULL if trust is None else os.fsencode(trust), view
    )
    if json:
        emit(**_as_dict(view))
        raise typer.Exit(0 if status == lib.LWMQ_OK else 1)
    check(status)
    print(f"{module}: signed by {_text(view.signer)}, until {_as_dict(view)['expires']}")


@app.command("list")
def list_(json: JsonOption = False) -> None:
    """Show the modules of $LWMQ_MODULE_PATH: loaded, or why they are refused."""
    found: list[dict[str, Any]] = []
    view = sized("lwmq_module_view")
    while lib.lwmq_query_module(len(found), view) == lib.LWMQ_OK:
        found.append(_as_dict(view))
    if json:
        emit(modules=found)
        return
    for module in found:
        state = f"loaded, signed by {module['signer']}" if module["loaded"] else f"refused: {module['text']}"
        print(f"{module['path']}: {state}")
    if not found:
        print("no modules: LWMQ_MODULE_PATH names no folder that has one")
