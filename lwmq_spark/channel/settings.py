"""What a channel is made from: arguments, options of the address, the environment and the conf file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from lwmq_spark._ffi import lib, milliseconds, sized
from lwmq_spark.options import Address, Role, resolve, whole

ReceiveKind = Literal["mono_unbounded", "multi_unbounded", "bounded_discard_oldest", "bounded_discard_newest"]
RECEIVE_KINDS: dict[str, int] = {
    "mono_unbounded": lib.LWMQ_QUEUE_MONO_UNBOUNDED,
    "multi_unbounded": lib.LWMQ_QUEUE_MULTI_UNBOUNDED,
    "bounded_discard_oldest": lib.LWMQ_QUEUE_BOUNDED_DISCARD_OLDEST,
    "bounded_discard_newest": lib.LWMQ_QUEUE_BOUNDED_DISCARD_NEWEST,
}
LINGER_S = 5.0  # of close(), where neither argument nor address nor conf says otherwise
MOST_64 = (1 << 64) - 1  # of the structures that the library takes


@dataclass(frozen=True, slots=True)
class Settings:
    """`options` is the lwmq_channel_options; the rest is what Python alone knows of."""

    address: str  # without options, but for those of its provider
    role: Role
    linger: float | None
    raw: bool
    receives_in_turns: bool  # one thread at a time
    options: Any


def check_kind(what: str, kind: object, kinds: Mapping[str, int]) -> None:
    """ValueError: none of `kinds`."""
    if not isinstance(kind, str) or kind not in kinds:
        raise ValueError(f"{what} {kind!r} is none of {', '.join(kinds)}")


def read_settings(
    address: Address,
    *,
    role: Role | None = None,
    buffer_bytes: int | str | None = None,
    buffers: int | tuple[int, int] | None = None,
    retry: float | str | None = None,
    raw: bool | None = None,
    secure_erase: bool | None = None,
    home_thread: bool | None = None,
    linger: float | str | None = None,
    receive_queue: ReceiveKind = "mono_unbounded",
    receive_capacity: int | None = None,
) -> Settings:
    """As the arguments of `Channel`, which are None where they were not said. TypeError, ValueError."""

    def setting(key: str, argument: Any, default: Any) -> Any:
        return resolve(address, "channel", key, argument, default)

    is_raw: bool = setting("raw", raw, False)
    options = sized("lwmq_channel_options")
    options.buffer_bytes = setting("buffer_bytes", buffer_bytes, 0)
    if isinstance(buffers, (tuple, list)):
        if len(buffers) != 2:
            raise ValueError(f"buffers {buffers!r}: a number for both directions, or (send, receive)")
        said: tuple[Any, Any] = (buffers[0], buffers[1])
    else:
        said = (None if buffers is None else setting("buffers", buffers, 0),) * 2
    options.buffers_send, options.buffers_receive = (
        resolve(address, "channel", f"buffers_{way}", number, 0, general="buffers")
        for way, number in zip(("send", "receive"), said, strict=True)
    )
    options.retry_ms = milliseconds(setting("retry", retry, 0.0))
    options.raw = is_raw
    options.secure_erase = setting("secure_erase", secure_erase, False)
    options.home_thread = setting("home_thread", home_thread, False)
    check_kind("receive_queue", receive_queue, RECEIVE_KINDS)
    options.receive_queue = RECEIVE_KINDS[receive_queue]
    options.receive_capacity = whole("receive_capacity", receive_capacity or 0, 0, MOST_64)
    if receive_queue.startswith("bounded") != (options.receive_capacity > 0):
        remedy = (
            "say how many messages it may hold"
            if options.receive_capacity == 0
            else "only bounded kinds have one"
        )
        raise ValueError(f"receive_capacity {receive_capacity} of a {receive_queue} receive queue: {remedy}")
    return Settings(
        address=address.text,
        role=setting("role", role, "auto"),
        linger=setting("linger", linger, LINGER_S),
        raw=is_raw,
        receives_in_turns=receive_queue == "mono_unbounded",
        options=options,
    )
