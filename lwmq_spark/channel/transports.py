"""The providers and filters of this process, and the limits of an address."""

from __future__ import annotations

from dataclasses import dataclass

from lwmq_spark._ffi import check, ffi, lib, sized
from lwmq_spark.options import CHANNEL, STREAM, parse_address

_NO_LIMIT = 2**64 - 1


@dataclass(frozen=True, slots=True)
class Limits:
    """What an address allows.

    `buffer_bytes_max`: the largest transport buffer. `buffers_max`: buffers of both directions together.
    `inline_bytes_max`: frames of so many bytes lie in the message itself. `frames_max`: frames of a
    message. `can_share_window`: streams lie in memory that readers map. `can_erase`: `secure_erase` works.
    `is_in_process`: both ends are in one process. `is_one_way`: the end that serves posts and the end that
    connects receives; a call that needs the other way is an LwmqError. `registered_bytes_max`: bytes that
    this process may now register with the device of the address (RDMA); None: no limit. `regions_max`:
    regions of memory that this device registers for all processes. Both are 0 where nothing is registered or
    the device is not known. `loss_ms`: after that time a peer whose host gives no sign of life is lost,
    unless the address says otherwise (`silent`); 0: the kernel reports it at once.
    """

    buffer_bytes_max: int
    buffers_max: int
    inline_bytes_max: int
    frames_max: int
    can_send: bool
    can_receive: bool
    can_multicast: bool
    can_share_window: bool
    is_reliable: bool
    is_ordered: bool
    can_erase: bool
    is_in_process: bool
    is_one_way: bool
    registered_bytes_max: int | None
    regions_max: int
    loss_ms: int


def limits(address: str) -> Limits:
    """The limits of `address`, without opening it. Never waits. AddressError: no provider takes it."""
    raw = sized("lwmq_limits")
    check(lib.lwmq_query_limits(parse_address(address, CHANNEL | STREAM).text.encode(), raw))
    flags = int(raw.capabilities)
    return Limits(
        buffer_bytes_max=int(raw.buffer_bytes_max),
        buffers_max=int(raw.buffers_max),
        inline_bytes_max=int(raw.inline_bytes_max),
        frames_max=int(raw.frames_max),
        can_send=bool(flags & lib.LWMQ_CAN_SEND),
        can_receive=bool(flags & lib.LWMQ_CAN_RECEIVE),
        can_multicast=bool(flags & lib.LWMQ_CAN_MULTICAST),
        can_share_window=bool(flags & lib.LWMQ_CAN_SHARE_WINDOW),
        is_reliable=bool(flags & lib.LWMQ_IS_RELIABLE),
        is_ordered=bool(flags & lib.LWMQ_IS_ORDERED),
        can_erase=bool(flags & lib.LWMQ_CAN_ERASE),
        is_in_process=bool(flags & lib.LWMQ_IS_IN_PROCESS),
        is_one_way=bool(flags & lib.LWMQ_IS_ONE_WAY),
        registered_bytes_max=None if raw.registered_bytes_max == _NO_LIMIT else int(raw.registered_bytes_max),
        regions_max=int(raw.regions_max),
        loss_ms=int(raw.loss_ms),
    )


def filters() -> dict[str, str]:
    """The names of the filters that this process has, each with a line that says what can be set."""
    found: dict[str, str] = {}
    while (name := lib.lwmq_filter_name(len(found))) != ffi.NULL:
        found[ffi.string(name).decode()] = ffi.string(lib.lwmq_filter_help(len(found))).decode()
    return found


def providers() -> list[str]:
    """The names of the providers that this process has."""
    names: list[str] = []
    while (name := lib.lwmq_provider_name(len(names))) != ffi.NULL:
        names.append(ffi.string(name).decode())
    return names
