"""Providers and filters from outside, and the signatures without which they are not loaded.

`lwmq.h` says how `$LWMQ_MODULE_PATH` is looked through, and what the trust file is; `lwmq module` is this on
the command line.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from lwmq_spark._ffi import check, ffi, lib, sized

File = str | os.PathLike[str]


@dataclass(frozen=True, slots=True)
class Module:
    """A shared object that was found.

    status is "LWMQ_OK", or why it is refused, of which text has the words. name, which it gives itself, is
    empty where it was not loaded into this process; key, hexadecimal, where it has no signature; signer,
    whose key that is, where nobody trusts it.
    """

    path: str
    loaded: bool
    status: str
    name: str
    key: str
    signer: str
    expires: datetime | None
    text: str


def modules() -> list[Module]:
    """Those of `$LWMQ_MODULE_PATH`, loaded or refused."""
    found: list[Module] = []
    view = sized("lwmq_module_view")
    while lib.lwmq_query_module(len(found), view) == lib.LWMQ_OK:
        found.append(_module(view))
    return found


def verify(module: File, trust: File | None = None) -> Module:
    """Checks `module` as if it were to be loaded, without loading it.

    trust is the trust file; None: the one that this process goes by. A refusal is an answer: `Module.status`
    is LWMQ_E_DENIED where there is no signature, or it is not of these bytes, of a key that is not trusted,
    or expired; LWMQ_E_CORRUPT where it, or the trust file, is malformed.
    """
    view = sized("lwmq_module_view")
    status = lib.lwmq_module_verify(_path(module), ffi.NULL if trust is None else _path(trust), view)
    if status != view.status:
        check(status)
    return _module(view)


def sign(module: File, key: File, expires: datetime) -> None:
    """Writes `module`.sig with the secret key in the file `key`. It names the module: both keep their names.

    ValueError: `expires` has no time zone. LwmqError: one of them cannot be read, or is no key, no whole
    shared object; or the signature cannot be written.
    """
    if expires.tzinfo is None:
        raise ValueError(f"{expires} has no time zone: did you mean .astimezone()?")
    check(lib.lwmq_module_sign(_path(module), _path(key), max(0, int(expires.timestamp()))))


def make_key(key: File) -> str:
    """Makes a key, and writes its secret to the new file `key`, which only its owner may read.

    Returns the public half, which is KEY in a line `ed25519 KEY NAME` of a trust file. LwmqError: the file is
    there.
    """
    public = ffi.new("char[72]")
    check(lib.lwmq_module_make_key(_path(key), public))
    return _text(public)


def _path(file: File) -> bytes:
    """As the system has it, which takes any bytes but NUL."""
    path = os.fsencode(file)
    if b"\0" in path:
        raise ValueError(f"path {path!r} has a NUL byte: leave it out")
    return path


def _text(raw: Any) -> str:
    return str(ffi.string(raw).decode("utf-8", "replace"))


def _moment(seconds: int) -> datetime:
    """Since 1970; the last that there is where it is later still."""
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (OSError, OverflowError, ValueError):
        return datetime.max.replace(tzinfo=UTC)


def _module(view: Any) -> Module:
    return Module(
        path=os.fsdecode(ffi.string(view.path)),
        loaded=bool(view.loaded),
        status=_text(lib.lwmq_status_name(view.status)),
        name=_text(view.name),
        key=_text(view.key),
        signer=_text(view.signer),
        expires=_moment(view.expires_s) if view.expires_s else None,
        text=_text(view.text),
    )
