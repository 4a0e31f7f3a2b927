"""`lwmq module`: providers and filters from outside, and the signatures without which they are not loaded."""

from __future__ import annotations

import sys
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import typer

from lwmq_spark import modules
from lwmq_spark.cli._output import JsonOption, emit

app = typer.Typer(
    help="Modules: make a key, sign, verify, list. See lwmq.h for $LWMQ_MODULE_PATH and the trust file.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


def _as_dict(module: modules.Module) -> dict[str, Any]:
    return asdict(module) | {"expires": module.expires.isoformat() if module.expires else None}


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
    if name.split() != [name]:
        raise typer.BadParameter(f"{name!r} is no name: one word, as a trust file has a key per line")
    public = modules.make_key(file)
    if json:
        emit(file=file, key=public, name=name)
    else:
        print(f"ed25519 {public} {name}")


@app.command()
def sign(
    module: Annotated[str, typer.Argument(help="The shared object.")],
    key: Annotated[str, typer.Option(help="The file of `lwmq module key`.")],
    days: Annotated[
        float, typer.Option(min=0.001, max=36_525, help="For how long the signature is good.")
    ] = 365.0,
    json: JsonOption = False,
) -> None:
    """Sign MODULE: writes MODULE.sig beside it. It names the module, so that both keep their names.

    \b
    Examples:
      lwmq module sign liborders.so --key my.key
      lwmq module sign liborders.so --key my.key --days 30
    """
    expires = datetime.now(UTC) + timedelta(days=days)
    modules.sign(module, key, expires)
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
    """Say whether MODULE would be loaded, without loading it; code 1 where not.

    \b
    Examples:
      lwmq module verify liborders.so
      lwmq module verify liborders.so --trust my.trusted_keys --json
    """
    found = modules.verify(module, trust)
    good = found.status == "LWMQ_OK"
    if json:
        emit(**_as_dict(found))
    elif good:
        print(f"{module}: signed by {found.signer}, until {found.expires:%Y-%m-%d %H:%M} UTC")
    else:
        print(f"lwmq: {module} is refused: {found.text}", file=sys.stderr)
    raise typer.Exit(0 if good else 1)


@app.command("list")
def list_(json: JsonOption = False) -> None:
    """Show the modules of $LWMQ_MODULE_PATH: loaded, or why they are refused.

    \b
    Examples:
      lwmq module list
      LWMQ_MODULE_PATH=/opt/lwmq lwmq module list --json
    """
    found = modules.modules()
    if json:
        emit(modules=[_as_dict(module) for module in found])
        return
    for module in found:
        state = f"loaded, signed by {module.signer}" if module.loaded else f"refused: {module.text}"
        print(f"{module.path}: {state}")
    if not found:
        print("no modules: LWMQ_MODULE_PATH names no folder that has one")
