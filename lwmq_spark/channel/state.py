"""What a channel tells of itself: its counters, its peers and its filters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

from lwmq_spark._ffi import ffi, fields_of


@dataclass(frozen=True, slots=True)
class ChannelStatistics:
    """Counters since the channel was made.

    `connected`: a peer is there; of several transports, one at each, or at any where they are redundant.
    `is_server`: what role `auto` has become.
    `messages_posted`, `messages_shipped`, `messages_received`; `messages_passed`: of those shipped, handed as
    they are to a peer in this process; `messages_unread`: shipped to the peers that are there now, and not
    seen read (a message of 4 KiB or more is read when its receiver has let go of it); `messages_lost`:
    shipped, and not seen read when a peer was lost.
    `buffers_shipped`: because they had no room (`shipped_full`), or nothing was left to put in
    (`shipped_idle`). `buffers_free`: send buffers that can be had at once. `bytes_shipped`, `bytes_received`.
    `peers_lost`. `clients_refused`: of a server; another version, purpose or user, or numbers that do not fit
    this channel's.
    `receive_queued`: in the receive queue now, if it has one; `receive_discarded`: by its rule.
    `duplicates_dropped`: had come over another redundant transport; these do not count as received.
    Of several transports all but `messages_posted` are sums.
    """

    connected: bool
    is_server: bool
    messages_posted: int
    messages_shipped: int
    messages_received: int
    messages_lost: int
    buffers_shipped: int
    shipped_full: int
    shipped_idle: int
    bytes_shipped: int
    bytes_received: int
    peers_lost: int
    buffers_free: int
    messages_passed: int
    receive_queued: int
    receive_discarded: int
    duplicates_dropped: int
    clients_refused: int
    messages_unread: int

    @classmethod
    def _of(cls, raw: Any) -> Self:
        figures = fields_of(raw)
        is_connected, is_server = bool(figures.pop("connected")), bool(figures.pop("is_server"))
        return cls(connected=is_connected, is_server=is_server, **figures)


@dataclass(frozen=True, slots=True)
class Peer:
    """The process at the other end, or the last one that was there.

    `connected`: as far as this side has noticed. `number`: counts the peers that have come over the
    transport, from 1. `pid`, `uid`: of the peer's process. `instance`: `identity().instance` there.
    """

    connected: bool
    number: int
    pid: int
    uid: int
    instance: str

    @classmethod
    def _of(cls, raw: Any) -> Self:
        instance = bytes(ffi.buffer(raw.instance)).hex()
        return cls(bool(raw.connected), int(raw.number), int(raw.pid), int(raw.uid), instance)


@dataclass(frozen=True, slots=True)
class FilterState:
    """One filter of a channel. The counters are of extents, in both directions, over all peers.

    `settings`: as they were given. `dropped`, `changed`: by the filter, of those `seen`. `sourced`: brought
    by the filter itself. `held`: kept by it now. `failed`: passed untouched because the filter could not do
    its work. `timed`: whose time on the way was measured.
    """

    name: str
    settings: str
    seen: int
    dropped: int
    changed: int
    sourced: int
    held: int
    failed: int
    timed: int

    @classmethod
    def _of(cls, raw: Any) -> Self:
        name, settings = (ffi.string(text).decode() for text in (raw.name, raw.settings))
        return cls(name=name, settings=settings, **fields_of(raw))
