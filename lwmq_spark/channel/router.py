"""Routing messages by what they say of themselves.

    router = Router()
    router.add("trades.*.eur", queue)            # the first frame is the topic
    router.add("urgent", alarm, frame=1)         # further frames are headers
    router.add("jobs.#", worker, group="work")   # of a group one gets it, in turns
    router.post([b"trades.sap.eur", b"urgent", body])

Patterns are those of AMQP 0-9-1 topic exchanges: words between dots, `*` is any one, `#` any number of them.
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
    """Which send queues a message goes to. Any thread adds, removes and posts."""

    def __init__(self) -> None:
        out = ffi.new("lwmq_router **")
        check(lib.lwmq_router_create(out))
        self._pointer = ffi.gc(out[0], lib.lwmq_router_destroy)
        self._lock = threading.RLock()  # a signal's handler may look while its thread has it
        # Keeps the queues; those of closed channels count no more. Where a signal's handler raised, the
        # library may know one more, or one less: it decides.
        self._routes: dict[SendQueue, set[tuple[int, str, str | None]]] = {}
        self._looks_at = 1  # so many queues: which of them have gone with their channels

    def add(self, pattern: str, queue: SendQueue, *, frame: int = 0, group: str | None = None) -> None:
        """Lead messages whose frame `frame` matches `pattern` to `queue`.

        A queue gets a message once, however many of its routes without a group match. group: of the routes
        with this name one gets it, in turns, passing over bounded queues that are full.
        With its channel a queue goes, and its routes. ValueError: a malformed pattern, a NUL byte, a route
        that is there already, or a queue of kind mono_unbounded, which has one poster. ClosedError.
        """
        _check_queue(queue)
        if queue.kind == "mono_unbounded":
            raise ValueError("a queue of kind mono_unbounded has one poster; take another kind for a router")
        with self._lock:
            check(self._change(lib.lwmq_router_add, pattern, queue, frame, group))
            if len(self._routes) >= self._looks_at:  # now and then: each look is at all of them
                for gone in [known for known in self._routes if known._channel.closed]:
                    self._routes.pop(gone, None)
                self._looks_at = 2 * len(self._routes) + 1
            self._routes.setdefault(queue, set()).add((frame, pattern, group))

    def remove(self, pattern: str, queue: SendQueue, *, frame: int = 0, group: str | None = None) -> None:
        """Take a route away. ValueError: there is none like it. ClosedError: it went with its channel."""
        _check_queue(queue)
        with self._lock:
            check(self._change(lib.lwmq_router_remove, pattern, queue, frame, group))
            routes = self._routes.get(queue, set())
            routes.discard((frame, pattern, group))
            if not routes:
                self._routes.pop(queue, None)

    def forget(self, queue: SendQueue) -> None:
        """Take every route to `queue` away, also of a channel that was closed. TypeError: no send queue."""
        _check_queue(queue)
        with self._lock:
            self._routes.pop(queue, None)
            handle = queue._channel._handle
            if not handle.usable:
                return  # its routes went with it; in a forked child, nobody may ever give the lock back
            with handle.lock:
                if handle.usable:
                    check(lib.lwmq_router_forget(self._pointer, queue._native.pointer))

    def post(self, frames: Any) -> int:
        """Post one message, as `SendQueue.post`; how many queues have it now. 0: no route matches.

        Never waits, copies nothing for a further queue. LwmqError: no queue of a group has room.
        MessageTooBigError, ClosedError: of one of the queues; the others have it.
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
        handle = queue._channel._handle
        handle.check_open()
        with handle.lock:
            handle.check_open()
            return int(call(self._pointer, frame, text, name, queue._native.pointer))

    def _open_routes(self) -> dict[SendQueue, int]:
        with self._lock:
            known = {queue: len(routes) for queue, routes in self._routes.copy().items()}
        return {queue: routes for queue, routes in known.items() if not queue._channel.closed}

    def __len__(self) -> int:
        """Routes."""
        return sum(self._open_routes().values())

    def __repr__(self) -> str:
        return f"<Router of {len(self)} routes to {len(self._open_routes())} queues>"


def _check_queue(queue: SendQueue) -> None:
    if not isinstance(queue, SendQueue):
        raise TypeError(f"a route leads to a send queue, not to {type(queue).__name__}")
