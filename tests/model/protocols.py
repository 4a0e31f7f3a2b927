"""The protocols, store by store as in the sources, in small configurations; each with ways to get it wrong.

`wrong` names a mutation: one order or one look that the real code must not lack.
"""

from __future__ import annotations

from .checker import Model, Process

# ---- native/src/tli/record_lane.cc: claim, show, land, release; buffers are used again -------------------

LANE_WRONG = ["word before the next is zeroed", "word without release", "released before it was read"]


def lane(wrong: str = "", messages: int = 7) -> Model:
    """Two buffers of two extents and an end; seven messages, so that both buffers come again."""
    sender = Process("sender", {"released": 0, "dead": 0})
    sent = 0
    for use in range((messages + 1) // 2):
        buffer, lap = use % 2, use // 2 + 1
        if lap > 1:
            sender.until(
                (f"released{buffer}", lambda v, r, lap=lap: v == lap - 1), ("dead:receiver", _is_set)
            )
            sender.load("dead", "dead:receiver")
            sender.goto("over", lambda r: r["dead"] == 1)
        sender.store(f"word{buffer}0", 0)
        for place in range(min(2, messages - sent)):
            sent += 1
            word, here = lap * 10 + 1, f"word{buffer}{place}"
            sender.store(f"data{buffer}{place}", sent)
            if wrong == "word before the next is zeroed":
                sender.store(here, word, release=True)
                sender.store(f"word{buffer}{place + 1}", 0)
            else:
                sender.store(f"word{buffer}{place + 1}", 0)
                sender.store(here, word, release=wrong != "word without release")
            if place == 0:
                sender.store(f"order{use % 2}", (use + 1) * 100 + lap * 10 + buffer, release=True)
        sender.store(f"word{buffer}{min(2, messages - 2 * use)}", lap * 10 + 2, release=True)
    sender.label("over")

    r0 = {
        "entry": 0,
        "number": 0,
        "buffer": 0,
        "lap": 0,
        "place": 0,
        "word": 0,
        "data": 0,
        "got": 0,
        "dead": 0,
    }
    receiver = Process("receiver", r0)
    order = lambda r: f"order{r['number'] % 2}"  # noqa: E731
    word = lambda r: f"word{r['buffer']}{r['place']}"  # noqa: E731
    released = lambda r: f"released{r['buffer']}"  # noqa: E731
    receiver.label("open")
    receiver.goto("over", lambda r: r["got"] == messages and r["entry"] == -1)
    receiver.until((order, lambda v, r: v // 100 == r["number"] + 1), ("dead:sender", _is_set))
    receiver.load("entry", order)
    receiver.goto("over", lambda r: r["entry"] // 100 != r["number"] + 1)
    receiver.do(lambda r: r.update(buffer=r["entry"] % 10, lap=r["entry"] // 10 % 10, place=0))
    receiver.label("land")
    receiver.until((word, lambda v, r: v != 0), ("dead:sender", _is_set))
    receiver.load("word", word)
    receiver.goto("over", lambda r: r["word"] == 0)
    receiver.check(lambda r: r["word"] // 10 == r["lap"], "a word of another lap")
    receiver.goto("end", lambda r: r["word"] % 10 == 2)
    if wrong == "released before it was read":
        receiver.store(released, lambda r: r["lap"], release=True)
    receiver.load("data", lambda r: f"data{r['buffer']}{r['place']}")
    receiver.check(lambda r: r["data"] == r["got"] + 1, "not the next message")
    receiver.do(lambda r: r.update(got=r["data"], place=r["place"] + 1))
    receiver.goto("land")
    receiver.label("end")
    receiver.store(released, lambda r: r["lap"], release=True)
    receiver.do(lambda r: r.update(number=r["number"] + 1, entry=-1 if r["got"] == messages else 0))
    receiver.goto("open")
    receiver.label("over")
    memory = {f"word{b}{p}": 0 for b in range(2) for p in range(3)}
    memory |= {f"data{b}{p}": 0 for b in range(2) for p in range(2)}
    return Model([sender, receiver], memory | {"order0": 0, "order1": 0, "released0": 0, "released1": 0})


def _is_set(value: int, registers: dict[str, int]) -> bool:
    return value == 1


# ---- native/src/tli/record_lane.{h,cc}: announce, look again, sleep; store, look, ring ------------------

SLEEPER_WRONG = ["no heavy barrier", "doorbell read after the announcement", "poster looks before it stores"]


def sleeper(wrong: str = "", posts: int = 3, membarrier: bool = True) -> Model:
    """One who waits for `posts` items, one who shows them and may die: nobody sleeps over what is there."""
    poster = Process("poster", {"ticket": 0, "answered": 0, "rung": 0})
    for item in range(1, posts + 1):
        if wrong == "poster looks before it stores":
            poster.load("ticket", "waiting")
            poster.store("item", item, release=True)
        else:
            poster.store("item", item, release=True)
            if not membarrier:
                poster.fence()
            poster.load("ticket", "waiting")
        poster.goto(f"shown{item}", lambda r: r["ticket"] in (0, r["answered"]))
        poster.do(lambda r: r.update(answered=r["ticket"], rung=r["rung"] + 1))
        poster.store("doorbell", lambda r: r["rung"], release=True)
        poster.wake("doorbell")
        poster.label(f"shown{item}")

    waiter = Process("waiter", {"item": 0, "seen": 0, "ticket": 0, "bell": 0, "dead": 0}, mortal=False)
    waiter.label("look")
    waiter.load("dead", "dead:poster")
    waiter.load("item", "item")
    waiter.goto("over", lambda r: r["item"] == posts or (r["dead"] == 1 and r["item"] == r["seen"]))
    waiter.goto("sleep", lambda r: r["item"] == r["seen"])
    waiter.do(lambda r: r.update(seen=r["item"]))
    waiter.goto("look")
    waiter.label("sleep")
    waiter.do(lambda r: r.update(ticket=r["ticket"] % 7 + 1))
    if wrong != "doorbell read after the announcement":
        waiter.load("bell", "doorbell")
    waiter.store("waiting", lambda r: r["ticket"])
    if not membarrier:
        waiter.fence()
    elif wrong != "no heavy barrier":
        waiter.heavy("poster")
    if wrong == "doorbell read after the announcement":
        waiter.load("bell", "doorbell")
    waiter.load("item", "item")
    waiter.goto("awake", lambda r: r["item"] != r["seen"])
    waiter.wait("doorbell", lambda r: r["bell"])
    waiter.label("awake")
    waiter.store("waiting", 0)
    waiter.goto("look")
    waiter.label("over")
    return Model([poster, waiter], {"item": 0, "waiting": 0, "doorbell": 0})


# ---- native/src/stream: ledger, lease page, introduction; one block that is written three times ---------

END = 99  # handed over in place of a batch: there are no more
LEASE_WRONG = [
    "lease after consumed",
    "news before ledger",
    "leases are not looked at",
    "drop before the introduction",
]


def lease(wrong: str = "", laps: int = 3) -> Model:
    """Writer, endpoint and reader of one block: while a reader holds it, nobody writes to it."""
    writer = Process("writer", {"ledger": 0, "told": 0})
    for lap in range(1, laps + 1):
        if lap > 1:
            if wrong == "news before ledger":
                writer.load("told", "page_told")
            dropped = lambda v, r, lap=lap: v == lap - 1  # noqa: E731
            writer.until(("ledger", dropped), ("dead:endpoint", _is_set))
            writer.load("ledger", "ledger")
            writer.goto(
                "over", lambda r, lap=lap: r["ledger"] != lap - 1
            )  # a ledger that nobody writes frees nothing
            if wrong != "news before ledger":
                writer.load("told", "page_told")
            if wrong != "leases are not looked at":
                writer.goto(f"free{lap}", lambda r: r["told"] == 0)
                writer.until(("page", lambda v, r, lap=lap: v != lap - 1), ("dead:reader", _is_set))
                writer.label(f"free{lap}")
        writer.store("content", lap)
        writer.store("published", lap, release=True)
    writer.label("over")

    endpoint = Process("endpoint", {"published": 0})
    for lap in range(1, laps + 1):
        endpoint.until(("published", lambda v, r, lap=lap: v >= lap), ("dead:writer", _is_set))
        endpoint.load("published", "published")
        endpoint.goto("over", lambda r, lap=lap: r["published"] < lap)
        if lap == 1:
            endpoint.until(("page_shown", _is_set), ("dead:reader", _is_set))
            if wrong != "drop before the introduction":
                endpoint.store("page_told", 1, release=True)
        endpoint.store("handed", lap, release=True)
        endpoint.until(("consumed", lambda v, r, lap=lap: v >= lap), ("dead:reader", _is_set))
        endpoint.store("ledger", lap, release=True)
        if lap == 1 and wrong == "drop before the introduction":
            endpoint.store("page_told", 1, release=True)
    endpoint.goto("done")
    endpoint.label("over")
    endpoint.store("handed", END, release=True)
    endpoint.label("done")

    reader = Process("reader", {"handed": 0, "content": 0})
    reader.store("page_shown", 1, release=True)
    for lap in range(1, laps + 1):
        reader.until(("handed", lambda v, r, lap=lap: v >= lap), ("dead:endpoint", _is_set))
        reader.load("handed", "handed")
        reader.goto("over", lambda r, lap=lap: r["handed"] < lap or r["handed"] == END)
        if wrong == "lease after consumed":
            reader.store("consumed", lap, release=True)
            reader.store("page", lap, release=True)
        else:
            reader.store("page", lap, release=True)
            reader.store("consumed", lap, release=True)
        for _ in range(2):  # moved past it, and still holding it
            reader.load("content", "content")
            reader.check(lambda r, lap=lap: r["content"] == lap, "a batch was written while it was leased")
        reader.store("page", 0, release=True)
    reader.label("over")
    names = ["content", "published", "handed", "consumed", "ledger", "page", "page_shown", "page_told"]
    return Model([writer, endpoint, reader], dict.fromkeys(names, 0))


# ---- native/src/stream: WantRoom and Room ----------------------------------------------------------------

ROOM_WRONG = ["drops before the wish are told to nobody"]


def room(wrong: str = "", laps: int = 3) -> Model:
    """A writer with one block asks for room and sleeps: it hears of every drop since it last heard of one."""
    writer = Process("writer", {"ledger": 0, "wishes": 0, "lap": 1})
    writer.label("write")
    writer.store("published", lambda r: r["lap"], release=True)
    writer.label("look")
    writer.load("ledger", "ledger")
    writer.goto("wish", lambda r: r["ledger"] != r["lap"])
    writer.do(lambda r: r.update(lap=r["lap"] + 1))
    writer.goto("over", lambda r: r["lap"] > laps)
    writer.goto("write")
    writer.label("wish")
    writer.do(lambda r: r.update(wishes=r["wishes"] + 1))
    writer.store("wish", lambda r: r["wishes"], release=True)
    writer.until(("room", lambda v, r: v == r["wishes"]), ("dead:endpoint", _is_set))
    writer.load("ledger", "dead:endpoint")
    writer.goto("over", lambda r: r["ledger"] == 1)
    writer.goto("look")
    writer.label("over")

    names = ["consumed", "dropped", "wish", "heard", "wants", "unheard"]
    endpoint = Process("endpoint", dict.fromkeys(names, 0), daemon=True)
    endpoint.label("serve")
    endpoint.until(
        ("consumed", lambda v, r: v > r["dropped"]),
        ("wish", lambda v, r: v > r["heard"]),
        ("dead:writer", _is_set),
    )
    endpoint.load("consumed", "consumed")
    endpoint.goto("wishes", lambda r: r["consumed"] == r["dropped"])
    endpoint.do(lambda r: r.update(dropped=r["consumed"], unheard=1))
    endpoint.store("ledger", lambda r: r["dropped"], release=True)
    endpoint.goto("tell")
    endpoint.label("wishes")
    endpoint.load("wish", "wish")
    endpoint.goto("over", lambda r: r["wish"] == r["heard"])
    endpoint.do(lambda r: r.update(heard=r["wish"], wants=1))
    if wrong == "drops before the wish are told to nobody":
        endpoint.goto("serve")
    endpoint.label("tell")
    endpoint.goto("serve", lambda r: r["wants"] == 0 or r["unheard"] == 0)
    endpoint.do(lambda r: r.update(wants=0, unheard=0))
    endpoint.store("room", lambda r: r["heard"], release=True)
    endpoint.goto("serve")
    endpoint.label("over")

    reader = Process("reader", {"published": 0}, mortal=False)
    gone = (("dead:writer", _is_set), ("dead:endpoint", _is_set))
    for lap in range(1, laps + 1):
        reader.until(("published", lambda v, r, lap=lap: v >= lap), *gone)
        reader.load("published", "published")
        reader.goto("over", lambda r, lap=lap: r["published"] < lap)
        reader.store("consumed", lap, release=True)
    reader.label("over")
    return Model(
        [writer, endpoint, reader], dict.fromkeys(["published", "consumed", "ledger", "wish", "room"], 0)
    )
