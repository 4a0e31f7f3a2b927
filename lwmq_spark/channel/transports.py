"""Which providers this process has, and what an address allows before it is opened."""

from __future__ import annotations

from dataclasses import dataclass

from lwmq_spark._ffi import check, ffi, lib, sized
from lwmq_spark.options import CHANNEL, STREAM, parse_address


@dataclass(frozen=True, slots=True)
class Limits:
    """What an address allows. `buffers_max` counts both directions together.

    loss_ms: within this time a peer that has died is noticed; 0: it cannot die without us.
    is_one_way: who serves posts, who connects receives; what needs both ways is refused (LwmqError).
    """

    buffer_bytes_max: int
    buffers_max: int
    inline_bytes_max: int
    frames_max: int
    loss_ms: int
    can_send: bool
    can_receive: bool
    can_multicast: bool
    can_share_window: bool
    is_reliable: bool
    is_ordered: bool
    can_erase: bool
    is_in_process: bool
    is_one_way: bool


def limits(address: str) -> Limits:
    """What `address` allows, before it is opened. Never waits. AddressError: no provider takes it."""
    raw = sized("lwmq_limits")
    check(lib.lwmq_query_limits(parse_address(address, CHANNEL | STREAM).text.encode(), raw))
    flags = int(raw.capabilities)
    return Limits(
        buffer_bytes_max=int(raw.buffer_bytes_max),
        buffers_max=int(raw.buffers_max),
        inline_bytes_max=int(raw.inline_bytes_max),
        frames_max=int(raw.frames_max),
        loss_ms=int(raw.loss_ms),
        can_send=bool(flags & lib.LWMQ_CAN_SEND),
        can_receive=bool(flags & lib.LWMQ_CAN_RECEIVE),
        can_multicast=bool(flags & lib.LWMQ_CAN_MULTICAST),
        can_share_window=bool(flags & lib.LWMQ_CAN_SHARE_WINDOW),
        is_reliable=bool(flags & lib.LWMQ_IS_RELIABLE),
        is_ordered=bool(flags & lib.LWMQ_IS_ORDERED),
        can_erase=bool(flags & lib.LWMQ_CAN_ERASE),
        is_in_process=bool(flags & lib.LWMQ_IS_IN_PROCESS),
        is_one_way=bool(flags & lib.LWMQ_IS_ONE_WAY),
    )


def filters() -> dict[str, str]:
    """Names of the registered filters, and what can be set of each, in a line."""
    found: dict[str, str] = {}
    while (name := lib.lwmq_filter_name(len(found))) != ffi.NULL:
        found[ffi.string(name).decode()] = ffi.string(lib.lwmq_filter_help(len(found))).decode()
    return found


def providers() -> list[str]:
    """Names of the providers that are registered in this process."""
    names: list[str] = []
    while (name := lib.lwmq_provider_name(len(names))) != ffi.NULL:
        names.append(ffi.string(name).decode())
    return names
