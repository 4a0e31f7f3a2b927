"""The meetings of a channel's threads, and of those who look at a process from outside.

Like protocols.py: store by store, in small configurations, each with ways to get it wrong.
"""

from __future__ import annotations

from collections.abc import Callable

from .checker import Model, Process, Registers
from .protocols import ADOPTED, FREE, HANDED, TAKEN, _is_set

# ---- native/src/conversation/post.cc, close.cc: a channel is closed while somebody posts ----

OPEN, CLOSING, CLOSED = range(3)
QUEUED, SHIPPED, DROPPED, WITHDRAWN, BACK = range(5)  # what became of a message, by the holder of the pump
CLOSING_WRONG = [
    "poster does not look at the phase behind its push",
    "poster looks at the phase before its push",
    "drops before it sets the phase",
    "one look at the queues",
    "no heavy barrier before the second look",
    "withdraws without the pump",
    "who finds the pump free does not look at the phase",
]
CLOSING_FREE_WRONG = ["poster does not look at the phase behind its push", "one look at the queues"]
CLOSING_TWO_WRONG = ["what others took out is not counted"]


def _give_back_pump(process: Process) -> None:
    process.store("pump", FREE, release=True)


def _take_pump(process: Process, at: str) -> None:
    """take_before_others: goes on with the pump in hand."""
    process.compare_swap("pump", "pump", FREE, TAKEN)
    process.goto(f"{at}:taken", lambda r: r["pump"] == FREE)
    process.compare_swap("pump", "pump", HANDED, ADOPTED)
    process.goto(f"{at}:taken", lambda r: r["pump"] == HANDED)
    process.swap("pump", "wanted", 1)
    process.label(f"{at}:again")
    process.until(("pump", lambda v, r: v in (FREE, HANDED)))
    process.compare_swap("pump", "pump", FREE, TAKEN)
    process.goto(f"{at}:lower", lambda r: r["pump"] == FREE)
    process.compare_swap("pump", "pump", HANDED, ADOPTED)
    process.goto(f"{at}:again", lambda r: r["pump"] != HANDED)
    process.label(f"{at}:lower")
    process.swap("pump", "wanted", 0)
    process.label(f"{at}:taken")
    process.do(lambda r: r.update(pump=0))


def _take_landing(process: Process, register: str) -> None:
    process.label("take")
    process.compare_swap(register, "landing", FREE, TAKEN)
    process.goto("has landing", lambda r: r[register] == FREE)
    process.until(("landing", lambda v, r: v == FREE))
    process.goto("take")
    process.label("has landing")


def _collect(process: Process, at: str, queues: str, becomes: int, note: str = "") -> None:
    """With the pump in hand: everything comes out of the queues."""
    for i, queue in enumerate(queues):
        process.load("seen", f"pushed:{queue}")
        process.goto(f"{at}:{queue}", lambda r: r["seen"] == 0)
        process.load("seen", f"fate:{queue}")
        process.goto(f"{at}:{queue}", lambda r: r["seen"] != QUEUED)
        process.store(f"fate:{queue}", becomes)
        if note:
            process.do(lambda r, i=i: r.update({note: r[note] + 4**i}))
        process.label(f"{at}:{queue}")
        process.do(lambda r: r.update(seen=0))


def _ship_queued(process: Process, at: str, queues: str) -> None:
    """pump_and_release, from the pump in hand; ends at the label `at` with the pump given away."""
    process.label(f"{at}:pump")
    process.load("seen", "mark")
    process.goto(f"{at}:clear", lambda r: r["seen"] == 0)
    process.store("mark", 0)
    process.fence()
    process.label(f"{at}:clear")
    process.load("attached", "attached")
    process.goto(f"{at}:nobody", lambda r: r["attached"] == 0)
    _collect(process, f"{at}:ship", queues, SHIPPED, "gone")
    process.do(lambda r: r.update(attached=0))
    _give_back_pump(process)
    process.label(f"{at}:look")
    process.fence()
    process.load("seen", "mark")
    process.goto(at, lambda r: r["seen"] == 0)
    process.load("pump", "wanted")
    process.goto(at, lambda r: r["pump"] != 0)
    process.compare_swap("pump", "pump", FREE, TAKEN)
    process.goto(at, lambda r: r["pump"] != FREE)
    process.goto(f"{at}:pump")
    process.label(f"{at}:nobody")
    process.do(lambda r: r.update(seen=0, attached=0))
    _give_back_pump(process)
    process.label(at)
    process.do(lambda r: r.update(pump=0, seen=0, attached=0))


def _closed_poster(name: str, queues: str, wrong: str) -> Process:
    """Posts one message into its queue."""
    own = queues.index(name)
    process = Process(
        f"poster {name}",
        dict.fromkeys(["pump", "seen", "attached", "phase", "gone", "refused"], 0),
        mortal=False,
    )
    process.load("phase", "phase")
    process.goto("refused", lambda r: r["phase"] != OPEN)
    process.load("pump", "wanted")
    process.goto("enqueue", lambda r: r["pump"] != 0)
    process.compare_swap("pump", "pump", FREE, TAKEN)
    process.goto("enqueue", lambda r: r["pump"] != FREE)
    process.load("attached", "attached")
    process.goto("push", lambda r: r["attached"] == 0)
    process.do(lambda r: r.update(gone=r["gone"] + 4**own, attached=0))
    _give_back_pump(process)
    process.goto("mine:look")

    process.label("push")
    if wrong != "who finds the pump free does not look at the phase":
        process.load("phase", "phase")
        process.goto("has pump", lambda r: r["phase"] == CLOSED)
    process.store(f"pushed:{name}", 1, release=True)
    _ship_queued(process, "mine", queues)
    process.goto("over")
    process.label("has pump")
    _give_back_pump(process)
    process.goto("refused")

    process.label("enqueue")
    process.do(lambda r: r.update(pump=0, phase=0))
    if wrong == "poster looks at the phase before its push":
        process.load("phase", "phase")
    process.store(f"pushed:{name}", 1, release=True)
    process.load("pump", "pump")
    process.goto("kicked", lambda r: r["pump"] >= HANDED)  # served: a light barrier will do
    process.fence()
    process.load("seen", "mark")
    process.goto("marked", lambda r: r["seen"] == 1)
    process.store("mark", 1)
    process.fence()
    process.label("marked")
    process.do(lambda r: r.update(seen=0))
    process.load("pump", "pump")
    process.goto("kicked", lambda r: r["pump"] != FREE)
    process.load("pump", "wanted")
    process.goto("kicked", lambda r: r["pump"] != 0)
    process.compare_swap("pump", "pump", FREE, TAKEN)
    process.goto("kicked", lambda r: r["pump"] != FREE)
    _ship_queued(process, "kicked", queues)
    process.do(lambda r: r.update(pump=0))
    if wrong == "poster does not look at the phase behind its push":
        process.goto("over")
    if wrong != "poster looks at the phase before its push":
        process.load("phase", "phase")
    process.goto("over", lambda r: r["phase"] != CLOSED)
    if wrong != "withdraws without the pump":
        _take_pump(process, "withdraw")
    _collect(process, "withdraw", queues, WITHDRAWN)
    process.load("seen", f"fate:{name}")
    process.goto("not found", lambda r: r["seen"] != WITHDRAWN)
    process.store(f"fate:{name}", BACK)
    process.do(lambda r: r.update(refused=1))
    process.label("not found")
    if wrong != "withdraws without the pump":
        _give_back_pump(process)
    process.goto("over")

    process.label("refused")
    process.do(lambda r: r.update(refused=1))
    process.label("over")
    process.do(lambda r: r.update(pump=0, seen=0, attached=0, phase=0))
    process.store(f"done:{name}", lambda r: 1 + 2 * r["gone"] + 64 * r["refused"], release=True)
    return process


def _closes(wrong: str, queues: str, pump: int) -> Model:
    posters = [_closed_poster(queue, queues, wrong) for queue in queues]

    closer = Process("closer", dict.fromkeys(["pump", "seen", "gone"], 0), mortal=False)
    closer.swap("seen", "phase", CLOSING, release=True)
    _take_pump(closer, "close")
    if wrong == "drops before it sets the phase":
        _collect(closer, "early", queues, DROPPED, "gone")
    closer.store("phase", CLOSED, release=True)
    closer.store("attached", 0)
    if wrong != "drops before it sets the phase":
        _collect(closer, "first", queues, DROPPED, "gone")
    _give_back_pump(closer)
    closer.fence()
    if wrong != "no heavy barrier before the second look":
        for poster in posters:
            closer.heavy(poster.name)
    if wrong not in ("one look at the queues", "drops before it sets the phase"):
        closer.label("again")
        closer.until(("pump", lambda v, r: v == FREE))
        closer.load("seen", "wanted")
        closer.goto("again", lambda r: r["seen"] != 0)
        closer.compare_swap("pump", "pump", FREE, TAKEN)
        closer.goto("again", lambda r: r["pump"] != FREE)
        _collect(closer, "second", queues, DROPPED, "gone")
        if wrong != "what others took out is not counted":
            for i, queue in enumerate(queues):
                closer.load("seen", f"fate:{queue}")
                closer.goto(f"not out:{queue}", lambda r: r["seen"] != WITHDRAWN)
                closer.store(f"fate:{queue}", DROPPED)
                closer.do(lambda r, i=i: r.update(gone=r["gone"] + 4**i))
                closer.label(f"not out:{queue}")
        _give_back_pump(closer)
    closer.do(lambda r: r.update(pump=0, seen=0))
    closer.store("done:close", lambda r: 1 + 2 * r["gone"], release=True)

    dones = [f"done:{queue}" for queue in queues]
    judge = Process("judge", dict.fromkeys(["close", *queues], 0), mortal=False)
    for queue in ["close", *queues]:
        judge.until((f"done:{queue}", lambda v, r: v != 0))
        judge.load(queue, f"done:{queue}")
    for i, queue in enumerate(queues):
        judge.check(
            lambda r, i=i, queue=queue: (
                sum(r[by] % 64 // 2 // 4**i % 4 for by in ["close", *queues]) + r[queue] // 64 == 1
            ),
            f"the message of {queue} was not shipped, dropped or refused, or two of these",
        )
    names = ["wanted", "mark", "phase", "done:close", *dones]
    names += [f"{what}:{queue}" for what in ("pushed", "fate") for queue in queues]
    memory = dict.fromkeys(names, 0) | {"pump": pump, "attached": 1}
    return Model([*posters, closer, judge], memory)


def closing(wrong: str = "") -> Model:
    """One posts while the channel is closed: its message is shipped, dropped and counted, or refused.

    One of these, never two, never none. The pump was handed to the service thread, which has gone: a poster
    has a light barrier alone. Left out are the linger, which is pumping as in `left_behind`, a pump that is
    handed over meanwhile, post_all, and a message that takes the address of one that was dropped.
    """
    return _closes(wrong, "a", HANDED)


def closing_free(wrong: str = "") -> Model:
    """The same, and nobody holds the pump."""
    return _closes(wrong, "a", FREE)


def closing_two(wrong: str = "") -> Model:
    """Two post, each into its queue: who takes back its own takes out what the other one has, too.

    What somebody took out for another is dropped and counted by close at its second look.
    """
    return _closes(wrong, "ab", HANDED)


# ---- native/src/conversation/receive.cc, providers/ipc/transport.cc, descriptor.h: who polls --------

POLLED_WRONG = [
    "doorbell is drained behind the announcement",
    "doorbell is drained behind the look",
    "bell is drained behind the look",
    "armed without a look",
    "armed without the heavy barrier",
    "who drained and found something does not ring",
    "peer looks before it stores",
]
POLLED_BESIDE_WRONG = ["who waited in the transport does not ring"]
POLLED_INTERRUPTED_WRONG = ["who was interrupted does not ring"]
AT_DESCRIPTOR = 64  # of a ticket: the sleeper has armed, and waits at its doorbell


def _posting_peer(posts: int, wrong: str, mortal: bool) -> Process:
    """Shows messages, and rings once for each ticket: the doorbell, where the sleeper waits there."""
    peer = Process("peer", {"ticket": 0, "before": 0}, mortal)
    for item in range(1, posts + 1):
        if wrong == "peer looks before it stores":
            peer.load("ticket", "waiting")
        peer.store("shown", item, release=True)
        if wrong != "peer looks before it stores":
            peer.load("ticket", "waiting")
        peer.goto(f"shown{item}", lambda r: r["ticket"] == 0)
        peer.swap("before", "answered", lambda r: r["ticket"])
        peer.goto(f"shown{item}", lambda r: r["ticket"] == r["before"])
        peer.goto(f"shown{item}", lambda r: r["ticket"] < AT_DESCRIPTOR)  # a futex: `sleeper` is about it
        peer.swap("ticket", "doorbell", 1, release=True)
        peer.label(f"shown{item}")
        peer.do(lambda r: r.update(ticket=0, before=0))
    peer.store("done:peer", 1, release=True)
    return peer


def _announce(process: Process, peer: str, at_descriptor: bool, wrong: str) -> None:
    """announce_waiting, with the barrier inside. Two tickets will do: one that the peer did not answer."""
    process.load("ticket", "answered")
    process.store("waiting", lambda r: 1 + r["ticket"] % 2 + AT_DESCRIPTOR * at_descriptor)
    if not (at_descriptor and wrong == "armed without the heavy barrier"):
        process.heavy(peer)
    process.do(lambda r: r.update(ticket=0))


def _arm(process: Process, wrong: str) -> None:
    """Transport::arm; goes to "something" where something is there."""
    if wrong not in ("doorbell is drained behind the announcement", "doorbell is drained behind the look"):
        process.swap("ticket", "doorbell", 0)
    _announce(process, "peer", True, wrong)
    if wrong == "doorbell is drained behind the announcement":
        process.swap("ticket", "doorbell", 0)
    if wrong != "armed without a look":
        process.load("shown", "shown")
        process.goto("something", lambda r: r["shown"] > r["taken"])
        process.load("dead", "dead:peer")
        process.goto("something", lambda r: r["dead"] == 1)
    if wrong == "doorbell is drained behind the look":
        process.swap("ticket", "doorbell", 0)
    process.do(lambda r: r.update(shown=0, ticket=0))


def _ring_bell(process: Process) -> None:
    process.swap("ticket", "bell", 1, release=True)
    process.do(lambda r: r.update(ticket=0))


def _take_first(process: Process, wrong: str, slices: int, interrupted: bool = False) -> None:
    """take_first, for so many waits in the transport. It ends at "got", "nothing" or "closed"."""
    process.label("look")
    process.compare_swap("landing", "landing", FREE, TAKEN)
    process.goto("has landing", lambda r: r["landing"] == FREE)
    process.until(("landing", lambda v, r: v == FREE))
    process.goto("look")
    process.label("has landing")
    process.do(lambda r: r.update(landing=0))
    process.load("taken", "taken")
    process.load("shown", "shown")
    process.goto("take", lambda r: r["shown"] > r["taken"])
    process.load("dead", "dead:peer")
    process.goto("empty", lambda r: r["dead"] == 0)
    process.load("shown", "shown")  # behind the look at its state: what came before the end is seen now
    process.goto("empty", lambda r: r["shown"] == r["taken"])
    process.label("take")
    process.store("taken", lambda r: r["taken"] + 1)
    process.do(lambda r: r.update(shown=0, taken=0, dead=0))
    rings = lambda r: (  # noqa: E731
        (r["waits"] and wrong != "who waited in the transport does not ring")
        or (r["drained"] and wrong != "who drained and found something does not ring")
    )
    process.goto("got and rung", lambda r: not rings(r))
    _ring_bell(process)
    process.label("got and rung")
    process.store("landing", FREE, release=True)
    process.goto("got")

    process.label("empty")
    process.do(lambda r: r.update(shown=0))
    process.load("phase", "phase")
    process.goto("is open", lambda r: r["phase"] == OPEN)
    process.do(lambda r: r.update(phase=0))
    process.goto("closed and rung", lambda r: r["drained"] == 0)
    _ring_bell(process)
    process.label("closed and rung")
    process.store("landing", FREE, release=True)
    process.goto("closed")
    process.label("is open")
    process.goto("leave", lambda r: r["waits"] == slices or r["dead"] == 1)
    # A slice of the wait, which may end by time or by a signal wherever it is.
    process.do(lambda r: r.update(waits=r["waits"] + 1))
    _announce(process, "peer", False, wrong)
    process.store("waiting", 0)
    process.do(lambda r: r.update(taken=0))
    process.store("landing", FREE, release=True)
    if interrupted:
        if wrong != "who was interrupted does not ring":
            _ring_bell(process)
        process.goto("nothing")
    process.goto("look")

    process.label("leave")
    if wrong != "bell is drained behind the look":
        process.swap("ticket", "bell", 0)
    process.load("phase", "phase")
    process.goto("something", lambda r: r["phase"] != OPEN)
    process.goto("armed", lambda r: r["dead"] == 1)  # who retires it rings: `retired` is about that
    _arm(process, wrong)
    process.label("armed")
    if wrong == "bell is drained behind the look":
        process.swap("ticket", "bell", 0)
    process.do(lambda r: r.update(taken=0, ticket=0, dead=0))
    process.store("landing", FREE, release=True)
    process.goto("nothing")
    process.label("something")
    process.do(lambda r: r.update(taken=0, shown=0, phase=0, ticket=0, dead=0, drained=1))
    process.store("landing", FREE, release=True)
    process.goto("look")


RECEIVER = ["landing", "taken", "shown", "ticket", "phase", "dead", "waits", "drained"]


def _poller(wrong: str) -> Process:
    """Sleeps until the descriptor is readable, then asks for one message; ends with the channel."""
    poller = Process("poller", dict.fromkeys(RECEIVER, 0), mortal=False)
    poller.label("poll")
    poller.until(("bell", _is_set), ("doorbell", _is_set))
    _take_first(poller, wrong, slices=0)
    poller.label("got")
    poller.label("nothing")
    poller.do(lambda r: r.update(drained=0))
    poller.goto("poll")
    poller.label("closed")
    return poller


def _sees_death() -> Process:
    """Our provider's thread, and the life line that is hung up."""
    watcher = Process("watcher", {"ticket": 0}, mortal=False, daemon=True)
    watcher.until(("dead:peer", _is_set))
    watcher.swap("ticket", "doorbell", 1, release=True)
    watcher.do(lambda r: r.update(ticket=0))
    return watcher


def _closes_behind_all(count: str = "taken") -> Process:
    """When everything that came was received, the channel is closed; else this waits for ever."""
    closer = Process("closer", {"shown": 0}, mortal=False)
    closer.until(("done:peer", _is_set), ("dead:peer", _is_set))
    closer.load("shown", "shown")
    closer.until((count, lambda v, r: v == r["shown"]))
    closer.swap("shown", "phase", CLOSING, release=True)
    closer.swap("shown", "bell", 1, release=True)
    return closer


def _polled(wrong: str, posts: int, waiters: list[Process], mortal: bool) -> Model:
    processes = [_posting_peer(posts, wrong, mortal), _poller(wrong), *waiters, _closes_behind_all()]
    if mortal:
        processes.append(_sees_death())
    names = ["shown", "waiting", "answered", "doorbell", "landing", "taken", "phase", "done:peer"]
    return Model(processes, dict.fromkeys(names, 0) | {"bell": 1})


def _waiter(wrong: str, interrupted: bool) -> Process:
    waiter = Process("waiter", dict.fromkeys(RECEIVER, 0), mortal=False)
    _take_first(waiter, wrong, slices=1, interrupted=interrupted)
    for end in ("got", "nothing", "closed"):
        waiter.label(end)
    return waiter


def polled(wrong: str = "", posts: int = 3) -> Model:
    """One polls, asks for one message when it is called, and polls again; the peer may die.

    Here are take_first, arm_transport, Transport::arm and the peer's Waker. Left out are reports
    (`retired`), runs of small messages, which are taken without a look at the descriptor, and several
    transports.
    """
    return _polled(wrong, posts, [], mortal=True)


def polled_beside(wrong: str = "", posts: int = 2) -> Model:
    """One polls; another one waits in the transport for one message, and gives up."""
    return _polled(wrong, posts, [_waiter(wrong, interrupted=False)], mortal=False)


def polled_interrupted(wrong: str = "", posts: int = 2) -> Model:
    """The same, and a signal ends the wait."""
    return _polled(wrong, posts, [_waiter(wrong, interrupted=True)], mortal=False)


# ---- native/src/conversation/queued.cc: the same, where the service thread lands for who polls -------

LANDED_WRONG = [
    "service leaves to who lands what he does not see",
    "what was delivered is not rung",
    "service arms without a look",
    "doorbell is drained behind the look",
]
LANDED_REFUSED_WRONG = [
    "who drained and is refused does not ring",
    "who finds somebody who lands does not ring",
]
PENDING, NOTICED = 1, 2  # of the doorbell: the service thread sleeps on edges


def _arm_for_service(process: Process, at: str, wrong: str) -> None:
    """Transport::arm and armed_; goes to `at`:something where something is there."""
    late = wrong == "doorbell is drained behind the look"
    if not late:
        process.swap("ticket", "doorbell", 0)
    _announce(process, "peer", True, wrong)
    process.load("shown", "shown")
    if late:
        process.swap("ticket", "doorbell", 0)
    if wrong == "service arms without a look" and process.name == "service":
        process.do(lambda r: r.update(shown=r["landed"]))
    process.do(lambda r: r.update(ticket=0))
    process.store("armed", lambda r: int(r["shown"] == r["landed"]))
    process.goto(f"{at}:something", lambda r: r["shown"] > r["landed"])
    process.do(lambda r: r.update(shown=0))


def _take_queued(process: Process, wrong: str) -> None:
    """take_queued of one message, which does not wait. It ends at "got", "nothing" or "closed"."""

    def release(to: str) -> None:
        process.do(lambda r: r.update(landed=0, shown=0, phase=0, leads=0, there=0, ticket=0))
        process.store("landing", FREE, release=True)
        process.goto(to)

    process.label("look")
    process.compare_swap("landing", "landing", FREE, TAKEN)
    process.do(lambda r: r.update(leads=int(r["landing"] == FREE), landing=0))
    process.load("phase", "phase")
    process.goto("take", lambda r: r["leads"] == 0)
    process.load("there", "armed")
    process.goto("unarmed", lambda r: r["there"] == 0)
    process.store("armed", 0)
    process.do(lambda r: r.update(drained=1))
    process.label("unarmed")
    process.load("landed", "landed")
    process.load("there", "queue")
    process.goto("take", lambda r: r["there"] > 0)
    process.load("shown", "shown")
    process.goto("take", lambda r: r["shown"] == r["landed"])
    process.store("landed", lambda r: r["landed"] + 1)
    process.do(lambda r: r.update(there=1))
    process.goto("taken")
    process.label("take")
    process.do(lambda r: r.update(shown=0))
    process.swap("there", "queue", lambda r: max(0, r["there"] - 1))
    process.goto("empty", lambda r: r["there"] == 0)
    process.label("taken")
    process.goto("taken and released", lambda r: r["leads"] == 0)
    release("taken and released")
    process.label("taken and released")
    process.swap("there", "received", lambda r: r["there"] + 1, release=True)
    process.load("there", "queue")
    process.goto("got", lambda r: r["drained"] == 0 and r["there"] == 0)
    _ring_bell(process)
    process.do(lambda r: r.update(there=0, landed=0, phase=0, leads=0))
    process.goto("got")

    process.label("empty")
    process.goto("is open", lambda r: r["phase"] == OPEN)
    if wrong != "who drained and is refused does not ring":
        process.goto("refused", lambda r: r["drained"] == 0)
        _ring_bell(process)
        process.label("refused")
    process.goto("closed", lambda r: r["leads"] == 0)
    release("closed")
    process.label("is open")
    process.goto("beside", lambda r: r["leads"] == 0)
    process.swap("ticket", "bell", 0)
    process.load("there", "queue")
    process.goto("leave:something", lambda r: r["there"] > 0)
    process.load("phase", "phase")
    process.goto("leave:something", lambda r: r["phase"] != OPEN)
    _arm_for_service(process, "leave", wrong)
    release("nothing")
    process.label("leave:something")
    process.do(lambda r: r.update(drained=1))
    release("look")

    process.label("beside")  # may_leave_behind_leader, where nobody leads who waits
    process.do(lambda r: r.update(phase=0))
    process.swap("ticket", "bell", 0)
    process.do(lambda r: r.update(drained=1, ticket=0))
    if wrong == "who finds somebody who lands does not ring":
        process.goto("nothing")
    _ring_bell(process)
    process.goto("look")


QUEUE_RECEIVER = ["landing", "landed", "shown", "ticket", "phase", "leads", "there", "drained"]


def _landing_service(wrong: str) -> Process:
    """land_waiting, as soon as the peer has rung."""
    registers = ["landing", "landed", "shown", "ticket", "there"]
    service = Process("service", dict.fromkeys(registers, 0), mortal=False, daemon=True)
    service.label("sleep")
    service.until(("doorbell", lambda v, r: v == PENDING))
    service.compare_swap("ticket", "doorbell", PENDING, NOTICED)
    service.do(lambda r: r.update(ticket=0))
    service.label("attend")
    service.compare_swap("landing", "landing", FREE, TAKEN)
    service.goto("lands", lambda r: r["landing"] == FREE)
    service.do(lambda r: r.update(landing=0))
    if wrong == "service leaves to who lands what he does not see":
        service.goto("sleep")
    service.until(("landing", lambda v, r: v == FREE))  # a little later
    service.goto("attend")
    service.label("lands")
    service.load("landed", "landed")
    service.load("shown", "shown")
    service.goto("arm", lambda r: r["shown"] == r["landed"])
    service.swap("there", "queue", lambda r: r["there"] + r["shown"] - r["landed"], release=True)
    service.store("landed", lambda r: r["shown"])
    service.do(lambda r: r.update(landed=r["shown"], shown=0))
    service.label("arm")
    service.do(lambda r: r.update(shown=0, there=0))
    _arm_for_service(service, "service", wrong)
    service.do(lambda r: r.update(landed=0))
    service.store("landing", FREE, release=True)
    service.load("there", "queue")
    service.goto("sleep", lambda r: r["there"] == 0)
    service.do(lambda r: r.update(there=0))
    if wrong != "what was delivered is not rung":
        _ring_bell(service)
    service.goto("sleep")
    service.label("service:something")
    service.do(lambda r: r.update(landed=0, shown=0))
    service.store("landing", FREE, release=True)
    service.load("there", "queue")
    service.goto("attend", lambda r: r["there"] == 0)
    service.do(lambda r: r.update(there=0))
    if wrong != "what was delivered is not rung":
        _ring_bell(service)
    service.goto("attend")
    return service


def _landed(wrong: str, posts: int, others: list[str]) -> Model:
    """A poller, and others that ask once."""
    poller = Process("poller", dict.fromkeys(QUEUE_RECEIVER, 0), mortal=False)
    poller.label("poll")
    poller.until(("bell", _is_set))
    _take_queued(poller, wrong)
    poller.label("got")
    poller.label("nothing")
    poller.do(lambda r: r.update(dict.fromkeys(QUEUE_RECEIVER, 0)))
    poller.goto("poll")
    poller.label("closed")
    askers = [Process(name, dict.fromkeys(QUEUE_RECEIVER, 0), mortal=False) for name in others]
    for asker in askers:
        _take_queued(asker, wrong)
        for end in ("got", "nothing", "closed"):
            asker.label(end)
    peer = _posting_peer(posts, wrong, mortal=False)
    processes = [peer, _landing_service(wrong), poller, *askers, _closes_behind_all("received")]
    names = ["shown", "waiting", "answered", "landing", "landed", "queue", "received", "phase", "armed"]
    memory = dict.fromkeys([*names, "done:peer"], 0) | {"bell": 1, "doorbell": PENDING}
    return Model(processes, memory, sequential=True)


def landed(wrong: str = "", posts: int = 2) -> Model:
    """One polls.

    Of the service thread land_waiting is here, as the doorbell calls it. Left out are what it does at a tick
    while there is activity, who waits as leader or follower (`followers`), and the death of the peer
    (`retired`). Where it finds the landing side taken it looks once more a little later: who holds it may
    have armed and looked already.
    """
    return _landed(wrong, posts, [])


def landed_refused(wrong: str = "") -> Model:
    """One polls, another one asks once, nothing comes, and the channel is closed.

    Who has drained the bell and is refused then rings it again.
    """
    return _landed(wrong, 0, ["asker"])


# ---- native/src/conversation/kept_buffers.h: how many of the peer's buffers messages keep ----------------

KEPT_BUFFERS_WRONG = [
    "what was refused stays counted",
    "every view counts as a buffer",
    "views are taken back in two steps",
    "kept is lowered before the views",
    "kept is lowered with every view",
]
NOT_KEPT = 9


def _forget(process: Process, at: str, views: Callable[[Registers], str], wrong: str) -> None:
    if wrong == "kept is lowered before the views":
        process.load("views", views)
        process.goto(f"{at}:more", lambda r: r["views"] != 1)
        process.swap("kept", "kept", lambda r: r["kept"] - 1)
        process.label(f"{at}:more")
        process.swap("views", views, lambda r: r["views"] - 1)
        return
    if wrong == "views are taken back in two steps":
        process.load("views", views)
        process.store(views, lambda r: r["views"] - 1)
    else:
        process.swap("views", views, lambda r: r["views"] - 1)
    if wrong != "kept is lowered with every view":
        process.goto(f"{at}:more", lambda r: r["views"] != 1)
    process.swap("kept", "kept", lambda r: r["kept"] - 1)
    process.label(f"{at}:more")


def kept_buffers(wrong: str = "", lands: tuple[int, ...] = (0, 0, 1, 0)) -> Model:
    """Of two buffers one may be kept. Messages of what lies in them go to two threads, which give them back.

    Left out are buffers that share a slot, and who keeps the counters themselves.
    """
    names = ["buffer", "views", "kept", "held", "other"]
    lander = Process("lander", dict.fromkeys(names, 0), mortal=False)
    views = lambda r: f"views{r['buffer']}"  # noqa: E731
    for n, buffer in enumerate(lands):
        lander.do(lambda r, buffer=buffer: r.update(buffer=buffer, views=0, kept=0, held=0, other=0))
        lander.swap("views", views, lambda r: r["views"] + 1)
        if wrong != "every view counts as a buffer":
            lander.goto(f"keep{n}", lambda r: r["views"] != 0)
        lander.swap("kept", "kept", lambda r: r["kept"] + 1)
        lander.goto(f"keep{n}", lambda r: r["kept"] == 0)
        if wrong != "what was refused stays counted":
            _forget(lander, f"refused{n}", views, wrong)
        lander.store(f"message{n}", NOT_KEPT, release=True)
        lander.goto(f"next{n}")
        lander.label(f"keep{n}")
        # Who gives it back lowers `held` first: so they are held by now.
        lander.swap("held", f"held{buffer}", lambda r: r["held"] + 1)
        lander.load("other", f"held{1 - buffer}")
        lander.check(lambda r: r["other"] == 0, "two buffers are kept")
        lander.store(f"message{n}", 1 + buffer, release=True)
        lander.label(f"next{n}")
    lander.store("done:lander", 1, release=True)

    givers = []
    for i in range(2):
        giver = Process(f"giver{i}", dict.fromkeys(["buffer", "views", "kept", "held"], 0), mortal=False)
        for n in range(i, len(lands), 2):
            giver.until((f"message{n}", lambda v, r: v != 0))
            giver.load("buffer", f"message{n}")
            giver.goto(f"next{n}", lambda r: r["buffer"] == NOT_KEPT)
            giver.do(lambda r: r.update(buffer=r["buffer"] - 1))
            giver.swap("held", lambda r: f"held{r['buffer']}", lambda r: r["held"] - 1)
            _forget(giver, f"given{n}", views, wrong)
            giver.label(f"next{n}")
            giver.do(lambda r: r.update(buffer=0, views=0, kept=0, held=0))
        giver.store(f"done:{giver.name}", 1, release=True)
        givers.append(giver)

    judge = Process("judge", {"left": 0}, mortal=False)
    for process in (lander, *givers):
        judge.until((f"done:{process.name}", _is_set))
    for counter in ("views0", "views1", "kept"):
        judge.load("left", counter)
        judge.check(lambda r: r["left"] == 0, "something is counted when all is given back")
    memory = ["kept", *(f"{what}{b}" for what in ("views", "held") for b in range(2))]
    memory += [f"message{n}" for n in range(len(lands))]
    memory += [f"done:{process.name}" for process in (lander, *givers)]
    return Model([lander, *givers, judge], dict.fromkeys(memory, 0))


# ---- native/src/conversation/service.cc, service_thread.cc: the peer has gone while somebody receives

ENDED = CLOSED  # here nobody closes to the end
RETIRED_WRONG = [
    "changes is loaded behind the look",
    "who notes that the peer has gone asks for nobody",
    "service gives up where somebody receives",
    "phase is not ended",
    "the end is told to nobody",
    "a request is over behind the look",
    "no barrier between the request and the look",
]
ALARMED_WRONG = [
    "a false alarm is not announced",
    "a false alarm is announced before it is over",
    "service does not look behind the end of the peer",
]
REOPENED_WRONG = ["who reopens does not look", "the phase is ended before the transport is taken away"]


def _note_peer_gone(process: Process, at: str, wrong: str) -> None:
    process.swap("seen", "peer_gone", 1, release=True)
    process.goto(at, lambda r: r["seen"] == 1)
    if wrong != "who notes that the peer has gone asks for nobody":
        process.swap("seen", "requested", 1, release=True)
        process.goto(at, lambda r: r["seen"] == 1)
        process.swap("seen", "bell", 1, release=True)
    process.label(at)
    process.do(lambda r: r.update(seen=0))


def _changed(process: Process) -> None:
    process.swap("seen", "changes", lambda r: r["seen"] + 1, release=True)
    process.wake("changes")
    process.do(lambda r: r.update(seen=0))


def _end_without_peer(process: Process, at: str, tells: bool = True) -> None:
    process.load("seen", "attached")
    process.goto(at, lambda r: r["seen"] == 1)
    process.compare_swap("seen", "phase", OPEN, ENDED, release=True)
    process.goto(at, lambda r: r["seen"] != OPEN)
    if tells:
        _changed(process)
    process.label(at)
    process.do(lambda r: r.update(seen=0))


def _endless_receiver(name: str, wrong: str) -> Process:
    """take_first without a limit of time, again and again; ends with the report, or is refused."""
    names = ["changes", "landing", "taken", "there", "transport", "gone", "seen"]
    process = Process(name, dict.fromkeys(names, 0), mortal=False)
    process.label("look")
    if wrong != "changes is loaded behind the look":
        process.load("changes", "changes")
    _take_landing(process, "landing")
    process.do(lambda r: r.update(landing=0))
    process.load("taken", "taken")
    process.load("there", "arrivals")
    process.goto("message", lambda r: r["there"] > r["taken"])
    process.load("there", "report")
    process.goto("reported", lambda r: r["there"] == 1)
    process.load("transport", "transport")
    process.goto("empty", lambda r: r["transport"] == 0)
    process.load("there", "shown")
    process.goto("message", lambda r: r["there"] > r["taken"])
    process.load("gone", "closed")
    process.goto("empty", lambda r: r["gone"] == 0)
    process.load("there", "shown")
    process.goto("message", lambda r: r["there"] > r["taken"])
    process.label("empty")
    process.load("there", "phase")
    process.goto("refused", lambda r: r["there"] != OPEN)
    process.goto("noted", lambda r: r["transport"] == 0)
    process.goto("is gone", lambda r: r["gone"] == 1)
    process.load("seen", "peer_gone")
    process.goto("noted", lambda r: r["seen"] == 1)
    process.until(("shown", lambda v, r: v > r["taken"]), ("closed", _is_set))
    process.do(lambda r: r.update(changes=0, taken=0, there=0, transport=0))
    process.store("landing", FREE, release=True)
    process.goto("look")
    process.label("is gone")
    _note_peer_gone(process, "noted", wrong)
    process.do(lambda r: r.update(taken=0, there=0, transport=0, gone=0))
    process.store("landing", FREE, release=True)
    if wrong == "changes is loaded behind the look":
        process.load("changes", "changes")
    process.wait("changes", lambda r: r["changes"])
    process.do(lambda r: r.update(changes=0))
    process.goto("look")

    process.label("message")
    process.store("taken", lambda r: r["taken"] + 1)
    process.do(lambda r: r.update(changes=0, taken=0, there=0, transport=0, gone=0))
    process.store("landing", FREE, release=True)
    process.goto("look")

    process.label("reported")
    process.store("report", 0)
    process.load("there", "shown")
    process.check(lambda r: r["there"] == r["taken"], "the end comes before what was shown")
    process.label("refused")
    process.do(lambda r: r.update(dict.fromkeys(names, 0)))
    process.store("landing", FREE, release=True)
    process.store(f"done:{name}", 1, release=True)
    return process


def _retiring_service(wrong: str) -> Process:
    """attend and retire, for a channel that was accepted: nobody follows its peer."""
    service = Process("service", {"seen": 0, "landing": 0, "shown": 0}, mortal=False, daemon=True)
    service.label("sleep")
    service.until(("bell", _is_set))
    service.swap("seen", "bell", 0)
    if wrong != "a request is over behind the look":
        service.store("requested", 0, release=True)
        if wrong != "no barrier between the request and the look":
            service.fence()  # the mutex is unlocked, which is one where it is an exchange
    service.label("attend")
    service.do(lambda r: r.update(seen=0, landing=0))
    service.load("seen", "attached")
    service.goto("served", lambda r: r["seen"] == 0)
    service.load("seen", "peer_gone")
    service.goto("retire", lambda r: r["seen"] == 1)
    service.load("seen", "closed")
    service.goto("served", lambda r: r["seen"] == 0)
    service.label("retire")
    service.do(lambda r: r.update(seen=0))
    service.compare_swap("landing", "landing", FREE, TAKEN)
    service.goto("has landing", lambda r: r["landing"] == FREE)
    if wrong == "service gives up where somebody receives":
        service.goto("served")
    service.until(("landing", lambda v, r: v == FREE))  # a millisecond
    service.goto("attend")

    service.label("has landing")
    service.do(lambda r: r.update(landing=0))
    service.load("shown", "shown")
    service.store("arrivals", lambda r: r["shown"])
    service.do(lambda r: r.update(shown=0))
    service.load("seen", "closed")
    service.goto("gone", lambda r: r["seen"] == 1)
    # A false alarm.
    if wrong != "a false alarm is announced before it is over":
        service.store("peer_gone", 0)
    service.store("landing", FREE, release=True)
    if wrong != "a false alarm is not announced":
        _changed(service)
    if wrong == "a false alarm is announced before it is over":
        service.store("peer_gone", 0)
    service.goto("served")

    service.label("gone")
    if wrong != "service does not look behind the end of the peer":
        service.load("shown", "shown")
        service.store("arrivals", lambda r: r["shown"])
    service.do(lambda r: r.update(seen=0, shown=0))
    service.store("report", 1)
    service.store("transport", 0)
    if wrong == "the phase is ended before the transport is taken away":
        service.compare_swap("seen", "phase", OPEN, ENDED, release=True)
    service.swap("seen", "attached", 0, release=True)
    service.store("peer_gone", 0)
    if wrong not in ("the phase is ended before the transport is taken away", "phase is not ended"):
        _end_without_peer(service, "ended", tells=wrong != "the end is told to nobody")
    service.store("landing", FREE, release=True)
    if wrong != "the end is told to nobody":
        _changed(service)
    service.label("served")
    service.do(lambda r: r.update(seen=0))
    if wrong == "a request is over behind the look":
        service.store("requested", 0, release=True)
    service.goto("sleep")
    return service


def _retires(wrong: str, receivers: int, posts: int, others: list[Process]) -> Model:
    peer = Process("peer", mortal=False)
    for item in range(1, posts + 1):
        peer.store("shown", item, release=True)
    peer.store("closed", 1, release=True)
    waiting = [_endless_receiver(f"receiver {i}", wrong) for i in range(receivers)]
    judge = Process("judge", {"phase": 0}, mortal=False)
    for process in (*waiting, *others):
        judge.until((f"done:{process.name}", _is_set))
    judge.until(("attached", lambda v, r: v == 0))
    judge.until(("phase", lambda v, r: v == ENDED))
    names = ["changes", "landing", "taken", "arrivals", "report", "shown", "closed", "phase", "peer_gone"]
    names += ["requested", "bell", *(f"done:{process.name}" for process in (*waiting, *others))]
    memory = dict.fromkeys(names, 0) | {"attached": 1, "transport": 1, "requested": 1, "bell": 1}
    return Model([peer, _retiring_service(wrong), *waiting, *others, judge], memory)


def retired(wrong: str = "", posts: int = 2) -> Model:
    """Two receive: one hears of the end, the other one is refused, and nobody sleeps for ever.

    The channel is one that was accepted: no peer follows. Left out are the pump, which retire takes behind
    the landing side, a peer that refuses what is shipped, and sleeping in the transport (`sleeper`).
    """
    return _retires(wrong, 2, posts, [])


def alarmed(wrong: str = "", posts: int = 2) -> Model:
    """The same with one who receives, and another one who takes the peer for gone before it is."""
    poster = Process("poster", {"seen": 0}, mortal=False)
    _note_peer_gone(poster, "noted", wrong)
    poster.store("done:poster", 1, release=True)
    return _retires(wrong, 1, posts, [poster])


def reopened(wrong: str = "", posts: int = 0) -> Model:
    """A signal ends the linger of who closes: the channel is open again, or has ended."""
    closer = Process("closer", {"seen": 0}, mortal=False)
    closer.compare_swap("seen", "phase", OPEN, CLOSING, release=True)
    closer.goto("over", lambda r: r["seen"] != OPEN)
    _changed(closer)
    closer.compare_swap("seen", "phase", CLOSING, OPEN, release=True)
    if wrong != "who reopens does not look":
        _end_without_peer(closer, "over")
    closer.label("over")
    closer.store("done:closer", 1, release=True)
    # The service may have nobody to be told by: the receiver may be refused while it is closing.
    teller = Process("poster", {"seen": 0}, mortal=False)
    teller.until(("closed", _is_set))
    _note_peer_gone(teller, "noted", wrong)
    teller.store("done:poster", 1, release=True)
    return _retires(wrong, 1, posts, [closer, teller])


# ---- native/src/conversation/receive.cc, close.cc: the channel is closed while somebody receives

CLOSED_BESIDE_WRONG = [
    "closes without the landing side",
    "counts what was received before it has the landing side",
    "what has landed counts as received",
    "gives the landing side up before the transport is taken away",
    "the transport is looked up before the landing side is taken",
    "who waits in the transport never looks at the phase",
    "what was given is counted behind the release",
]


def _receives_from_runs(wrong: str) -> Process:
    """receive, again and again: a run of two lands, they are given one by one; ends where it is refused.

    It begins in take, where the landing side is free, and goes on in take_first, which waits in the
    transport with the landing side in hand.
    """
    names = ["phase", "landing", "transport", "shown", "landed", "received", "unmapped", "given"]
    receiver = Process("receiver", dict.fromkeys(names, 0), mortal=False)
    early = wrong == "the transport is looked up before the landing side is taken"
    rest = ["phase", "landing", "shown", "landed", "received", "unmapped"] + ["transport"] * (not early)

    def look(missing: str) -> None:
        """With the landing side in hand: goes to "give", or on where nothing is there."""
        if not early:
            receiver.load("transport", "transport")
        receiver.load("landed", "landed")
        receiver.load("received", "received")
        receiver.goto("give", lambda r: r["received"] < r["landed"])
        receiver.goto(missing, lambda r: r["transport"] == 0)
        receiver.load("unmapped", "unmapped")
        receiver.check(lambda r: r["unmapped"] == 0, "looks into a transport that is closed")
        receiver.load("shown", "shown")
        receiver.goto(missing, lambda r: r["shown"] == r["landed"])
        receiver.store("landed", lambda r: min(r["shown"], r["landed"] + 2))
        receiver.goto("give")

    receiver.label("receive")
    receiver.do(lambda r: r.update(dict.fromkeys([*rest, "transport"], 0)))
    if early:
        receiver.load("transport", "transport")
    receiver.load("phase", "phase")
    receiver.goto("wait", lambda r: r["phase"] != OPEN)
    receiver.compare_swap("landing", "landing", FREE, TAKEN)
    receiver.goto("wait", lambda r: r["landing"] != FREE)
    look("nothing")
    receiver.label("wait")
    receiver.do(lambda r: r.update(dict.fromkeys(rest, 0)))
    _take_landing(receiver, "landing")
    look("nothing")
    receiver.label("nothing")
    receiver.load("phase", "phase")
    receiver.goto("refused", lambda r: r["phase"] != OPEN)
    until = [("shown", lambda v, r: v > r["landed"])]
    if wrong != "who waits in the transport never looks at the phase":
        until.append(("phase", lambda v, r: v != OPEN))  # at the end of a slice
    receiver.until(*until)
    receiver.store("landing", FREE, release=True)
    receiver.goto("wait")

    receiver.label("give")
    late = wrong == "what was given is counted behind the release"
    if not late:
        receiver.store("received", lambda r: r["received"] + 1)
    receiver.do(lambda r: r.update(given=r["given"] + 1))
    receiver.store("landing", FREE, release=True)
    if late:
        receiver.store("received", lambda r: r["received"] + 1)
    receiver.goto("receive")

    receiver.label("refused")
    receiver.do(lambda r: r.update(dict.fromkeys([*rest, "transport"], 0)))
    receiver.store("landing", FREE, release=True)
    receiver.store("given", lambda r: r["given"], release=True)
    receiver.store("done:receiver", 1, release=True)
    return receiver


def closed_beside(wrong: str = "", posts: int = 3) -> Model:
    """A peer posts, one receives, and the channel is closed without a linger.

    What the peer hears was received is what was given to somebody: the rest of it is lost, and counted. Left
    out are the pump (`closing`), what is larger than a run takes, a receive queue, and whoever is woken by
    the end (`destroyed`).
    """
    peer = Process("peer", {"goodbye": 0, "given": 0}, mortal=False)
    for item in range(1, posts + 1):
        peer.store("shown", item, release=True)
    peer.until(("closed", _is_set))
    peer.load("goodbye", "goodbye")
    peer.until(("done:receiver", _is_set))
    peer.load("given", "given")
    peer.check(lambda r: r["goodbye"] == r["given"], "the peer hears of others than were received")

    closer = Process("closer", {"seen": 0, "received": 0}, mortal=False)
    closer.compare_swap("seen", "phase", OPEN, CLOSING, release=True)
    count = "landed" if wrong == "what has landed counts as received" else "received"
    if wrong == "counts what was received before it has the landing side":
        closer.load("received", count)
    if wrong != "closes without the landing side":
        _take_landing(closer, "seen")
    closer.store("phase", CLOSED, release=True)
    if wrong != "counts what was received before it has the landing side":
        closer.load("received", count)
    closer.store("goodbye", lambda r: r["received"], release=True)
    early = wrong == "gives the landing side up before the transport is taken away"
    if early:
        closer.store("landing", FREE, release=True)
    closer.store("transport", 0)
    closer.load("received", "received")
    closer.store("landed", lambda r: r["received"])  # the rest of a run goes back unread
    if not early:
        closer.store("landing", FREE, release=True)
    closer.store("unmapped", 1, release=True)
    closer.store("closed", 1, release=True)
    names = ["shown", "phase", "landing", "landed", "received", "given", "unmapped", "goodbye", "closed"]
    memory = dict.fromkeys([*names, "done:receiver"], 0) | {"transport": 1}
    return Model([peer, _receives_from_runs(wrong), closer], memory)


# ---- native/src/channel/channel.cc, conversation/shared.h: a channel is destroyed while others wait ------

DESTROYED_WRONG = [
    "destroy does not wait",
    "counted behind the release",
    "who is refused is not counted",
    "the phase is looked at before who waits is counted",
    "nobody is woken",
]


DESTROYED_BESIDE_WRONG = [
    "what was received is noted behind the release",
    "who has waited in vain is not counted",
    "destroy does not wait",
]


def _come_in(process: Process, at: str) -> None:
    """Counted once in a call."""
    process.goto(at, lambda r: r["inside"] == 1)
    process.swap("seen", "callers", lambda r: r["seen"] + 1)
    process.do(lambda r: r.update(inside=1, seen=0))
    process.label(at)


def _touch(process: Process) -> None:
    process.load("seen", "freed")
    process.check(lambda r: r["seen"] == 0, "the channel is gone while somebody is in a call of it")


def _go_out(process: Process) -> None:
    """The last touch of the channel."""
    _touch(process)
    process.goto("out", lambda r: r["inside"] == 0)
    process.swap("seen", "callers", lambda r: r["seen"] - 1, release=True)
    process.label("out")
    process.store(f"done:{process.name}", 1, release=True)


def _receives_in_vain(wrong: str) -> Process:
    """take_first where nobody is connected: counted with the landing side in hand, before it goes on."""
    names = ["changes", "landing", "phase", "inside", "seen"]
    process = Process("receiver", dict.fromkeys(names, 0), mortal=False)
    process.label("look")
    process.load("changes", "changes")
    _take_landing(process, "landing")
    process.store("begun:receiver", 1, release=True)
    process.load("phase", "phase")
    process.goto("refused", lambda r: r["phase"] != OPEN)
    if wrong != "counted behind the release":
        _come_in(process, "counted")
    process.store("landing", FREE, release=True)
    if wrong == "counted behind the release":
        _come_in(process, "counted")
    process.wait("changes", lambda r: r["changes"])
    process.do(lambda r: r.update(changes=0, landing=0, phase=0))
    process.goto("look")
    process.label("refused")
    if wrong != "who is refused is not counted":
        _come_in(process, "counted too")
    process.store("landing", FREE, release=True)
    _go_out(process)
    return process


def _waits_in_vain(wrong: str) -> Process:
    """wait_connected and wait_peer: counted first."""
    process = Process("waiter", dict.fromkeys(["changes", "phase", "inside", "seen"], 0), mortal=False)
    early = wrong == "the phase is looked at before who waits is counted"
    if early:
        process.store("begun:waiter", 1, release=True)
        process.load("phase", "phase")
        process.goto("refused", lambda r: r["phase"] != OPEN)
    _come_in(process, "counted")
    if early:
        process.load("changes", "changes")
        process.goto("sleep")
    process.store("begun:waiter", 1, release=True)
    process.label("look")
    process.load("changes", "changes")
    process.load("phase", "phase")
    process.goto("refused", lambda r: r["phase"] != OPEN)
    process.label("sleep")
    process.wait("changes", lambda r: r["changes"])
    process.do(lambda r: r.update(changes=0, phase=0))
    process.goto("look")
    process.label("refused")
    _go_out(process)
    return process


def _receives_what_comes(wrong: str) -> Process:
    """receive where somebody is connected: waits in the transport, slice after slice, for one message."""
    names = ["landing", "shown", "phase", "inside", "seen"]
    process = Process("receiver", dict.fromkeys(names, 0), mortal=False)
    process.label("look")
    _take_landing(process, "landing")
    process.store("begun:receiver", 1, release=True)
    process.label("in hand")
    process.load("shown", "shown")
    process.goto("got", lambda r: r["shown"] == 1)
    process.load("phase", "phase")
    process.goto("refused", lambda r: r["phase"] != OPEN)
    process.until(("shown", _is_set), ("phase", lambda v, r: v != OPEN))  # or the end of a slice
    process.load("shown", "shown")
    process.goto("in hand", lambda r: r["shown"] == 1)
    if wrong != "who has waited in vain is not counted":
        _come_in(process, "counted")
    process.store("landing", FREE, release=True)
    _touch(process)
    process.do(lambda r: r.update(dict.fromkeys(["landing", "shown", "phase", "seen"], 0)))
    process.goto("look")
    process.label("got")
    if wrong != "what was received is noted behind the release":
        _touch(process)  # note_activity, and what comes behind that message
    process.store("landing", FREE, release=True)
    if wrong == "what was received is noted behind the release":
        _touch(process)
    process.goto("done")
    process.label("refused")
    _come_in(process, "counted too")
    process.store("landing", FREE, release=True)
    _touch(process)
    process.label("done")
    process.do(lambda r: r.update(dict.fromkeys(["landing", "shown", "phase", "seen"], 0)))
    process.goto("uncounted", lambda r: r["inside"] == 0)
    _go_out(process)
    process.goto("end")
    process.label("uncounted")
    process.store(f"done:{process.name}", 1, release=True)
    process.label("end")
    return process


def destroyed_beside(wrong: str = "") -> Model:
    """One waits for a message, which comes while the channel is destroyed: before, behind, or not at all.

    Who gets it is not counted: the destroyer waits for the landing side, behind which nothing is touched.
    """
    peer = Process("peer", mortal=False)
    peer.store("shown", 1, release=True)
    receiver = _receives_what_comes(wrong)
    return _destroys([peer, receiver], [receiver], wrong, {"shown": 0})


def destroyed(wrong: str = "") -> Model:
    """One receives, one waits for a peer, and nobody comes; then the channel is destroyed.

    A call has begun when it has the landing side, or is counted; none begins later. Left out are calls that
    do not wait, the pump, and waiting in the transport, whose slice ends with the landing side in hand.
    """
    callers = [_receives_in_vain(wrong), _waits_in_vain(wrong)]
    return _destroys(callers, callers, wrong, {})


def _destroys(processes: list[Process], callers: list[Process], wrong: str, memory: dict[str, int]) -> Model:
    destroyer = Process("destroyer", {"seen": 0}, mortal=False)
    for process in callers:
        destroyer.until((f"begun:{process.name}", _is_set))
    destroyer.compare_swap("seen", "phase", OPEN, CLOSING, release=True)
    if wrong != "nobody is woken":
        _changed(destroyer)
    _take_landing(destroyer, "seen")
    destroyer.store("phase", CLOSED, release=True)
    destroyer.store("landing", FREE, release=True)
    if wrong != "destroy does not wait":
        destroyer.until(("callers", lambda v, r: v == 0))
    destroyer.store("freed", 1, release=True)
    judge = Process("judge", mortal=False)
    for process in callers:
        judge.until((f"done:{process.name}", _is_set))
    judge.until(("freed", _is_set))
    names = ["changes", "landing", "phase", "callers", "freed"]
    names += [f"{what}:{process.name}" for what in ("begun", "done") for process in callers]
    return Model([*processes, destroyer, judge], dict.fromkeys(names, 0) | memory)


# ---- native/src/stats/page.h, observer.cc: an entry has another owner while somebody copies it ---------

ENTRY_WRONG = [
    "no fence behind the even lap",
    "odd without release",
    "no second look",
    "even laps are copied",
    "the lap begins again",
]


def entry(wrong: str = "", owners: int = 3) -> Model:
    """One owner after the other writes two things that stay and one that changes; a looker copies twice.

    The owners are one process: between two of them is a lock. That the lap is added to is a store here, as
    nobody else writes it.
    """
    owner = Process("owner", {"lap": 0}, mortal=False)
    for number in range(1, owners + 1):
        owner.load("lap", "lap")
        if wrong == "the lap begins again":
            owner.do(lambda r: r.update(lap=0))
        if wrong != "no fence behind the even lap":
            owner.fence()
        owner.store("lap", 0)
        owner.store("kind", 0)
        owner.store("figure", 0)
        owner.store("name", 0)
        owner.store("lap", lambda r: r["lap"])
        owner.store("kind", number)
        owner.store("name", number)
        owner.store("lap", lambda r: r["lap"] + 1, release=wrong != "odd without release")
        owner.store("figure", number)
        owner.store("lap", lambda r: r["lap"] + 2, release=True)  # given back

    looker = Process("looker", dict.fromkeys(["lap", "kind", "figure", "name", "again"], 0), mortal=False)
    for look in range(2):
        looker.load("lap", "lap")
        if wrong != "even laps are copied":
            looker.goto(f"nobody{look}", lambda r: r["lap"] % 2 == 0)
        looker.load("kind", "kind")
        looker.load("figure", "figure")
        looker.load("name", "name")
        looker.load("again", "lap")
        if wrong != "no second look":
            looker.goto(f"nobody{look}", lambda r: r["again"] != r["lap"])
        looker.check(
            lambda r: r["kind"] == r["name"] != 0 and r["figure"] in (0, r["kind"]), "figures of two owners"
        )
        looker.label(f"nobody{look}")
        looker.do(lambda r: r.update(lap=0, kind=0, figure=0, name=0, again=0))
    return Model([owner, looker], dict.fromkeys(["lap", "kind", "figure", "name"], 0))
