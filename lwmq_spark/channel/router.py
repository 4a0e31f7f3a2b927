"""Routing: to which send queues a message goes, by its topic and headers.

    router = Router()
    router.add("trades.*.eur", queue)            # the first frame is the topic
    router.add("urgent", alarm, frame=1)         # further frames are headers
    router.add("jobs.#", worker, group="work")   # one queue of a group gets it, in turns
    router.post([b"trades.sap.eur", b"urgent", body])

Patterns are those of AMQP 0-9-1 topic exchanges: words between dots, where `*` stands for any one word and
`#` for any number of words.
"""

from __future__ import annotations

import threading
from typing import Any

from lwmq_spark._ffi import OfOneProcess, check, ffi, lib, raise_status
from lwmq_spark.channel.send_queue import SendQueue
from lwmq_spark.message import Message, parts_of
from lwmq_spark.options import check_text, whole

FRAMES_MAX = (1 << 32) - 1


class Router(OfOneProcess):
    """A table of routes to send queues. Any thread adds, removes and posts."""

    def __init__(self) -> None:
        out = ffi.new("lwmq_router **")
        check(lib.lwmq_router_create(out))
        self._pointer = ffi.gc(out[0], lib.lwmq_router_destroy)
        self._lock = threading.RLock()  # a signal's handler may look while its thread has it
        # Keeps the queues. Those of closed channels do not count. If a signal's handler has raised, the
        # native router may have a route more or less than this; the native one decides.
        self._routes: dict[SendQueue, set[tuple[int, str, str | None]]] = {}
        self._looks_at = 1  # with so many queues, look which have gone with their channels

    def add(self, pattern: str, queue: SendQueue, *, frame: int = 0, group: str | None = None) -> None:
        """Route messages whose frame `frame`, counted from 0, matches `pattern` to `queue`.

        A queue gets a message once, however many of its routes without a group match.
        group: of the routes of a group that match, one gets the message. They take turns, passing over
            bounded queues that are full.
        The routes to a queue go with its channel. ValueError: a malformed pattern, a NUL byte, a route that
        exists already, or a queue of kind mono_unbounded, which has one poster. ClosedError.
        """
        _check_queue(queue)
        if queue.kind == "mono_unbounded":
            raise ValueError("a queue of kind mono_unbounded has one poster; take another kind for a router")
        with self._lock:
            check(self._change(lib.lwmq_router_add, pattern, queue, frame, group))
            if len(self._routes) >= self._looks_at:  # seldom, because a look is at all of them
                for gone in [known for known in self._routes if known._handle.closed]:
                    self._routes.pop(gone, None)
                self._looks_at = 2 * len(self._routes) + 1
            self._routes.setdefault(queue, set()).add((frame, pattern, group))

    def remove(self, pattern: str, queue: SendQueue, *, frame: int = 0, group: str | None = None) -> None:
        """Remove a route. ValueError: there is no such route. ClosedError: it has gone with its channel."""
        _check_queue(queue)
        with self._lock:
            check(self._change(lib.lwmq_router_remove, pattern, queue, frame, group))
            routes = self._routes.get(queue, set())
            routes.discard((frame, pattern, group))
            if not routes:
                self._routes.pop(queue, None)

    def forget(self, queue: SendQueue) -> None:
        """Remove every route to `queue`; its channel may be closed. TypeError: no send queue."""
        _check_queue(queue)
        with self._lock:
            self._routes.pop(queue, None)
            channel = queue._handle.pointer  # keeps the queue
            if channel is not None and queue._handle.usable:
                check(lib.lwmq_router_forget(self._pointer, queue._pointer))

    def post(self, frames: Any) -> int:
        """Post one message, given as for `SendQueue.post`, and return how many queues have it.

        0: no route matches. Never waits, and copies nothing for a further queue. LwmqError: no queue of a
        group has room. MessageTooBigError, ClosedError: one of the queues refused it; the others have it.
        """
        message = frames if isinstance(frames, Message) else Message(parts_of(frames, "post"))
        reference = message.reference()
        count = ffi.new("uint32_t *")
        status = lib.lwmq_router_post(self._pointer, reference, count)
        if reference[0] != ffi.NULL:
            lib.lwmq_message_destroy(reference[0])
        if status not in (lib.LWMQ_OK, lib.LWMQ_E_EMPTY):
            raise_status(status)
        return int(count[0])

    def _change(self, call: Any, pattern: str, queue: SendQueue, frame: int, group: str | None) -> int:
        text = check_text("pattern", pattern).encode()
        name = ffi.NULL if group is None else ffi.new("char[]", check_text("group", group).encode())
        frame = whole("frame", frame, 0, FRAMES_MAX)
        channel = queue._handle.lend()
        status = int(call(self._pointer, frame, text, name, queue._pointer))
        del channel  # the queue lives as long
        return status

    def _open_routes(self) -> dict[SendQueue, int]:
        with self._lock:
            known = {queue: len(routes) for queue, routes in self._routes.copy().items()}
        return {queue: routes for queue, routes in known.items() if not queue._handle.closed}

    def __len__(self) -> int:
        """The number of routes."""
        return sum(self._open_routes().values())

    def __repr__(self) -> str:
        return f"<Router of {len(self)} routes to {len(self._open_routes())} queues>"


def _check_queue(queue: SendQueue) -> None:
    if not isinstance(queue, SendQueue):
        raise TypeError(f"a route leads to a send queue, not to {type(queue).__name__}")
