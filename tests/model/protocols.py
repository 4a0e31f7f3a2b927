"""The protocols, store by store as in the sources, in small configurations; each with ways to get it wrong.

`wrong` names a mutation: one order or one look that the real code must not lack.
"""

from __future__ import annotations

from .checker import Model, Process

# ---- native/src/lane/record_lane.cc: claim, show, land, release; buffers are used again -------------------

LANE_WRONG = ["word before the next is zeroed", "word without release", "released before it was read"]


def _until_released(sender: Process, buffer: int, lap: int) -> None:
    """Before a buffer is filled again, where it was before; ends with "over" when the receiver is dead."""
    if lap > 1:
        sender.until((f"released{buffer}", lambda v, r: v == lap - 1), ("dead:receiver", _is_set))
        sender.load("dead", "dead:receiver")
        sender.goto("over", lambda r: r["dead"] == 1)


def lane(wrong: str = "", messages: int = 7) -> Model:
    """Two buffers of two extents and an end; seven messages, so that both buffers come again."""
    sender = Process("sender", {"released": 0, "dead": 0})
    sent = 0
    for use in range((messages + 1) // 2):
        buffer, lap = use % 2, use // 2 + 1
        _until_released(sender, buffer, lap)
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

    return Model([sender, _lander(messages, wrong)], _lane_memory(2))


def _lander(messages: int, wrong: str = "") -> Process:
    """Takes `messages` in their order."""
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
    return receiver


def _lane_memory(extents: int) -> dict[str, int]:
    """Of two buffers with room for so many extents and an end."""
    memory = {f"word{b}{p}": 0 for b in range(2) for p in range(extents + 1)}
    memory |= {f"data{b}{p}": 0 for b in range(2) for p in range(extents)}
    return memory | {"order0": 0, "order1": 0, "released0": 0, "released1": 0}


RUN_WRONG = ["first word before the others", "first word without release", "end is not zeroed"]


def run(wrong: str = "", uses: int = 3) -> Model:
    """Two buffers, thrice: one extent opens it, then two together that their first word shows."""
    sender = Process("sender", {"released": 0, "dead": 0})
    for use in range(uses):
        buffer, lap = use % 2, use // 2 + 1
        _until_released(sender, buffer, lap)
        word, end = lap * 10 + 1, lap * 10 + 2
        first = f"word{buffer}1"
        sender.store(f"word{buffer}0", 0)
        sender.store(f"data{buffer}0", 3 * use + 1)
        sender.store(first, 0)
        sender.store(f"word{buffer}0", word, release=True)
        sender.store(f"order{use % 2}", (use + 1) * 100 + lap * 10 + buffer, release=True)
        if wrong == "first word before the others":
            sender.store(first, word, release=True)
        for place in (1, 2):
            sender.store(f"data{buffer}{place}", 3 * use + place + 1)
        sender.store(f"word{buffer}2", word)
        if wrong != "end is not zeroed":
            sender.store(f"word{buffer}3", 0)
        if wrong != "first word before the others":
            sender.store(first, word, release=wrong != "first word without release")
        sender.store(f"word{buffer}3", end, release=True)
    sender.label("over")
    return Model([sender, _lander(3 * uses)], _lane_memory(3))


HANDED_WRONG = ["only behind its order", "order without release", "released before it was read"]


def handed(wrong: str = "", buffers: int = 5) -> Model:
    """Two buffers that are handed over whole, five times: what is in them is said beside their order."""
    sender = Process("sender", {"dead": 0})
    for use in range(buffers):
        buffer, lap = use % 2, use // 2 + 1
        _until_released(sender, buffer, lap)
        entry = (use + 1) * 100 + lap * 10 + buffer
        sender.store(f"data{buffer}", use + 1)
        if wrong != "only behind its order":
            sender.store(f"only{use % 2}", use + 1)
        sender.store(f"order{use % 2}", entry, release=wrong != "order without release")
        if wrong == "only behind its order":
            sender.store(f"only{use % 2}", use + 1)
    sender.label("over")

    receiver = Process("receiver", {"entry": 0, "number": 0, "only": 0, "data": 0})
    slot = lambda r: r["number"] % 2  # noqa: E731
    released = lambda r: f"released{r['entry'] % 10}"  # noqa: E731
    receiver.label("open")
    receiver.goto("over", lambda r: r["number"] == buffers)
    receiver.until(
        (lambda r: f"order{slot(r)}", lambda v, r: v // 100 == r["number"] + 1), ("dead:sender", _is_set)
    )
    receiver.load("entry", lambda r: f"order{slot(r)}")
    receiver.goto("over", lambda r: r["entry"] // 100 != r["number"] + 1)
    receiver.load("only", lambda r: f"only{slot(r)}")
    receiver.check(lambda r: r["only"] == r["number"] + 1, "what is said of another buffer")
    if wrong == "released before it was read":
        receiver.store(released, lambda r: r["entry"] // 10 % 10, release=True)
    receiver.load("data", lambda r: f"data{r['entry'] % 10}")
    receiver.check(lambda r: r["data"] == r["number"] + 1, "not the next buffer")
    if wrong != "released before it was read":
        receiver.store(released, lambda r: r["entry"] // 10 % 10, release=True)
    receiver.do(lambda r: r.update(number=r["number"] + 1))
    receiver.goto("open")
    receiver.label("over")
    names = ("order0", "order1", "only0", "only1", "data0", "data1", "released0", "released1")
    return Model([sender, receiver], dict.fromkeys(names, 0))


def _is_set(value: int, registers: dict[str, int]) -> bool:
    return value == 1


# ---- native/src/lane/record_lane.{h,cc}: announce, look again, sleep; store, look, ring ------------------

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


# ---- native/src/queue/mpsc_list.h: push by compare-and-swap, take all by exchange, turn round -------------

MULTI_WRONG = [
    "linked after the swap",
    "swap without release",
    "stored instead of swapped",
    "taken without turning round",
    "emptied by a store",
]


def multi(wrong: str = "", pushes: int = 2) -> Model:
    """Two producers, one consumer; items are 1, 2 of one and 3, 4 of the other."""
    everything = 2 * pushes

    def producer(name: str, first: int) -> Process:
        process = Process(name, {"before": 0, "seen": 0}, mortal=False)
        for item in range(first, first + pushes):
            again, pushed = f"again{item}", f"pushed{item}"
            process.store(f"data{item}", item)
            process.load("before", "newest")
            process.label(again)
            if wrong != "linked after the swap":
                process.store(f"next{item}", lambda r: r["before"])
            if wrong == "stored instead of swapped":
                process.store("newest", item, release=True)
            else:
                release = wrong != "swap without release"
                process.compare_swap("seen", "newest", lambda r: r["before"], item, release)
                process.goto(pushed, lambda r: r["seen"] == r["before"])
                process.do(lambda r: r.update(before=r["seen"]))
                process.goto(again)
            process.label(pushed)
            if wrong == "linked after the swap":
                process.store(f"next{item}", lambda r: r["before"])
        process.store(f"done:{name}", 1, release=True)
        return process

    names = ["item", "older", "turned", "data", "got", "last1", "last2"]
    consumer = Process("consumer", dict.fromkeys(names, 0), mortal=False)
    link = lambda r: f"next{r['item']}"  # noqa: E731
    done = ("done:one", "done:other")
    consumer.label("take")
    consumer.until(("newest", lambda v, r: v != 0), (done[0], lambda v, r: r["got"] >= everything))
    consumer.goto("over", lambda r: r["got"] >= everything)
    if wrong == "emptied by a store":
        consumer.load("item", "newest")
        consumer.store("newest", 0)
    else:
        consumer.swap("item", "newest", 0)
    consumer.do(lambda r: r.update(turned=0))
    consumer.label("turn")
    consumer.goto("deliver", lambda r: r["item"] == 0)
    consumer.load("older", link)
    # What was turned round is a number in base 8 here: the links are the consumer's own by now.
    if wrong == "taken without turning round":
        digits = lambda number: 0 if number == 0 else len(f"{number:o}")  # noqa: E731
        consumer.do(lambda r: r.update(turned=r["turned"] + r["item"] * 8 ** digits(r["turned"])))
    else:
        consumer.do(lambda r: r.update(turned=r["turned"] * 8 + r["item"]))
    consumer.do(lambda r: r.update(item=r["older"]))
    consumer.check(lambda r: r["turned"] < 8**everything, "an item came twice")
    consumer.goto("turn")
    consumer.label("deliver")
    consumer.do(lambda r: r.update(item=r["turned"] % 8, turned=r["turned"] // 8))
    consumer.goto("delivered", lambda r: r["item"] == 0)
    consumer.load("data", lambda r: f"data{r['item']}")
    consumer.check(lambda r: r["data"] == r["item"], "an item without its content")
    consumer.check(lambda r: r["item"] > (r["last1"] if r["item"] <= pushes else r["last2"]), "out of order")
    consumer.do(lambda r: r.update({"last1" if r["item"] <= pushes else "last2": r["item"]}))
    consumer.do(lambda r: r.update(got=r["got"] + 1))
    consumer.goto("deliver")
    consumer.label("delivered")
    consumer.do(lambda r: r.update(item=0, older=0, data=0))
    consumer.goto("take", lambda r: r["got"] < everything)
    consumer.label("over")
    memory = {"newest": 0, "done:one": 0, "done:other": 0}
    memory |= {f"{what}{item}": 0 for what in ("data", "next") for item in range(1, everything + 1)}
    return Model([producer("one", 1), producer("other", 1 + pushes), consumer], memory)


# ---- native/src/queue/spsc_list.h: one producer, one consumer, chunks that come back ----------------------

SPSC_WRONG = [
    "tail without release",
    "linked behind the item",
    "given back before it is left",
    "no look whether the spare ring has room",
    "a spare is told of before it is read",
]


def spsc(wrong: str = "", pushes: int = 5) -> Model:
    """Chunks of one item, so that each item needs one, and a ring for one spare. Items are 1, 2, ..."""
    producer = Process(
        "producer", dict.fromkeys(["chunk", "last", "made", "spares", "back"], 0), mortal=False
    )
    for item in range(1, pushes + 1):
        producer.load("back", "spare_tail")
        producer.goto(f"new{item}", lambda r: r["spares"] == r["back"])
        if wrong == "a spare is told of before it is read":
            producer.store("spare_head", lambda r: r["spares"] + 1, release=True)
            producer.load("chunk", "spare")
        else:
            producer.load("chunk", "spare")
            producer.store("spare_head", lambda r: r["spares"] + 1, release=True)
        producer.do(lambda r: r.update(spares=r["spares"] + 1))
        producer.goto(f"had{item}")
        producer.label(f"new{item}")
        producer.do(lambda r: r.update(made=r["made"] + 1, chunk=r["made"] + 1))
        producer.label(f"had{item}")
        producer.store(lambda r: f"next{r['chunk']}", 0)
        link = "first" if item == 1 else lambda r: f"next{r['last']}"
        if wrong != "linked behind the item":
            producer.store(link, lambda r: r["chunk"])
        producer.store(lambda r: f"item{r['chunk']}", item)
        producer.store("tail", item, release=wrong != "tail without release")
        if wrong == "linked behind the item":
            producer.store(link, lambda r: r["chunk"])
        producer.do(lambda r: r.update(last=r["chunk"], back=0))

    names = ["chunk", "done", "item", "spares", "taken"]
    consumer = Process("consumer", dict.fromkeys(names, 0), mortal=False)

    def give_back(item: int) -> None:
        if wrong != "no look whether the spare ring has room":
            consumer.load("taken", "spare_head")
            consumer.goto(f"full{item}", lambda r: r["spares"] - r["taken"] == 1)
        consumer.store("spare", lambda r: r["done"])
        consumer.store("spare_tail", lambda r: r["spares"] + 1, release=True)
        consumer.do(lambda r: r.update(spares=r["spares"] + 1))
        consumer.label(f"full{item}")

    for item in range(1, pushes + 1):
        consumer.until(("tail", lambda v, r, item=item: v >= item))
        if item == 1:
            consumer.load("chunk", "first")
        else:
            consumer.do(lambda r: r.update(done=r["chunk"]))
            if wrong == "given back before it is left":
                give_back(item)
            consumer.load("chunk", lambda r: f"next{r['done']}")
            consumer.check(lambda r: r["chunk"] != 0, "a chunk without the next one")
            if wrong != "given back before it is left":
                give_back(item)
        consumer.check(lambda r: r["chunk"] != 0, "no chunk")
        consumer.load("item", lambda r: f"item{r['chunk']}")
        consumer.check(lambda r, item=item: r["item"] == item, f"another item than {item}")
        consumer.do(lambda r: r.update(item=0, done=0, taken=0))
    memory = ["tail", "first", "spare", "spare_head", "spare_tail"]
    memory += [f"{what}{chunk}" for what in ("next", "item") for chunk in range(pushes + 1)]
    return Model([producer, consumer], dict.fromkeys(memory, 0))


# ---- native/src/conversation/post.cc: who posts, pumps; and what is left behind is found ---------------

FREE, TAKEN, HANDED, ADOPTED = range(4)
LEFT_WRONG = [
    "poster without a fence",
    "no fence behind the release",
    "no look behind the release",
    "cleared after the queues were looked at",
    "clearing without a fence",
    "mark is set behind the last fence",
]
WANTED_WRONG = ["wanted is lowered behind the last look"]
SERVED_WRONG = ["served pump released without the heavy barrier", "no look after the heavy barrier"]


def _try_take(process: Process, register: str, failed: str, wanted: bool) -> None:
    """try_take: goes on with the pump in hand, or to the label `failed`."""
    if wanted:  # there is somebody who takes it before others
        process.load(register, "wanted")
        process.goto(failed, lambda r: r[register] != 0)
    process.compare_swap(register, "pump", FREE, TAKEN)
    process.goto(failed, lambda r: r[register] != FREE)


def _pump(
    process: Process, at: str, wrong: str, queues: list[str], adopted: bool, wanted: bool = False
) -> None:
    """With the pump in hand: pump, release, look; ends at the label `at` with the pump given away."""
    process.label(f"{at}:pump")
    process.load("mark", "mark")
    process.goto(f"{at}:clear", lambda r: r["mark"] == 0)
    if wrong != "cleared after the queues were looked at":
        process.store("mark", 0)
        if wrong != "clearing without a fence":
            process.fence()
    process.label(f"{at}:clear")
    for queue in queues:
        process.load("seen", f"posted:{queue}")
        process.store(f"shipped:{queue}", lambda r: r["seen"])
    if wrong == "cleared after the queues were looked at":
        process.store("mark", 0)
    process.do(lambda r: r.update(mark=0, seen=0))
    process.store("pump", FREE, release=True)
    if adopted and wrong != "served pump released without the heavy barrier":
        for queue in queues:
            process.heavy(queue)
    if adopted and wrong != "no look after the heavy barrier":
        process.store("mark", 1)
    if wrong != "no fence behind the release":
        process.fence()
    if wrong == "no look behind the release":
        process.goto(at)
    process.load("mark", "mark")
    process.goto(at, lambda r: r["mark"] == 0)
    _try_take(process, "mark", at, wanted)
    if adopted:  # from here on as anybody
        _pump(process, f"{at}+", wrong, queues, adopted=False)
        process.label(f"{at}+")
        process.goto(at)
    else:
        process.goto(f"{at}:pump")


def _poster(name: str, wrong: str, queues: list[str], posts: int, wanted: bool = False) -> Process:
    process = Process(name, {"pump": 0, "mark": 0, "seen": 0}, mortal=False)
    for item in range(1, posts + 1):
        over = f"over{item}"
        process.do(lambda r: r.update(pump=0, mark=0, seen=0))
        _try_take(process, "pump", f"enqueue{item}", wanted)
        process.store(f"posted:{name}", item, release=True)
        _pump(process, f"mine{item}", wrong, queues, adopted=False, wanted=wanted)
        process.label(f"mine{item}")
        process.goto(over)
        process.label(f"enqueue{item}")
        process.store(f"posted:{name}", item, release=True)
        process.load("pump", "pump")
        process.goto(over, lambda r: r["pump"] >= HANDED)  # served: a light barrier will do
        if wrong != "poster without a fence":
            process.fence()
        process.load("mark", "mark")
        process.goto(f"marked{item}", lambda r: r["mark"] == 1)
        process.store("mark", 1)
        if wrong not in ("mark is set behind the last fence", "poster without a fence"):
            process.fence()
        process.label(f"marked{item}")
        process.load("pump", "pump")
        process.goto(over, lambda r: r["pump"] != FREE)
        _try_take(process, "pump", over, wanted)
        _pump(process, f"kicked{item}", wrong, queues, adopted=False, wanted=wanted)
        process.label(f"kicked{item}")
        process.label(over)
    process.store(f"done:{name}", 1, release=True)
    return process


def _judge(queues: list[str], others: list[str], posts: int) -> Process:
    """When everybody is done and every store has arrived, everything that was posted was shipped."""
    judge = Process("judge", {"shipped": 0}, mortal=False)
    for name in queues + others:
        judge.until((f"done:{name}", _is_set))
    for name in queues:
        judge.load("shipped", f"shipped:{name}")
        judge.check(lambda r: r["shipped"] == posts, "a message was left behind")
    return judge


def left_behind(wrong: str = "", posts: int = 2) -> Model:
    """Two posters on two queues: whoever finds the pump taken leaves its message, and it is found."""
    queues = ["one", "two"]
    names = [f"{what}:{queue}" for queue in queues for what in ("posted", "shipped", "done")]
    processes = [_poster(queue, wrong, queues, posts) for queue in queues]
    return Model([*processes, _judge(queues, [], posts)], dict.fromkeys(["pump", "mark", *names], 0))


def wanted(wrong: str = "", posts: int = 2) -> Model:
    """A poster beside a thread that takes the pump before others, who leave theirs to it."""
    poster = _poster("one", wrong, ["one"], posts, wanted=True)
    taker = Process("taker", {"pump": 0, "mark": 0, "seen": 0}, mortal=False)
    taker.store("wanted", 1)
    taker.label("again")
    taker.until(("pump", lambda v, r: v == FREE))
    taker.compare_swap("pump", "pump", FREE, TAKEN)
    taker.goto("again", lambda r: r["pump"] != FREE)
    if wrong not in WANTED_WRONG:
        taker.store("wanted", 0)
    _pump(taker, "over", wrong, ["one"], adopted=False)
    taker.label("over")
    if wrong in WANTED_WRONG:
        taker.store("wanted", 0)
    taker.store("done:taker", 1, release=True)
    names = ["pump", "mark", "wanted", "posted:one", "shipped:one", "done:one", "done:taker"]
    return Model([poster, taker, _judge(["one"], ["taker"], posts)], dict.fromkeys(names, 0))


def served(wrong: str = "", posts: int = 2) -> Model:
    """A poster beside the service thread, which has been handed the pump and gives it away."""
    poster = _poster("one", wrong, ["one"], posts)
    service = Process("service", {"pump": 0, "mark": 0, "seen": 0}, mortal=False)
    service.compare_swap("pump", "pump", HANDED, ADOPTED)
    _pump(service, "over", wrong, ["one"], adopted=True)
    service.label("over")
    service.store("done:service", 1, release=True)
    names = ["mark", "posted:one", "shipped:one", "done:one", "done:service"]
    return Model(
        [poster, service, _judge(["one"], ["service"], posts)], {"pump": HANDED} | dict.fromkeys(names, 0)
    )


# ---- native/src/conversation/ownership.h: the same with a home thread --------------------------------------

HOME_FREE, HOME_TAKEN, HOME_ASKING, HOME_HANDED, HOME_ADOPTED = range(5)
HOME_WRONG = [
    "home gives up before it has looked again",
    "home looks again without a fence",
    "who asks is taken for one who works",
    "guest asks without the heavy barrier",
    "poster without the heavy barrier",
]
HOME_WANTED_WRONG = ["wanted is lowered behind the last look"]
HOME_HANDS_WRONG = ["adopted before home has let go"]


def _home_take(
    process: Process, at: str, wrong: str, others: list[str], home: bool, wanted: bool = False
) -> None:
    """try_take: goes to `at`:ok or to `at`:no. Where somebody may want it before others, guests look."""
    process.label(at)
    if wanted and not home:
        process.load("home", "wanted")
        process.goto(f"{at}:no", lambda r: r["home"] != 0)
    if home:
        process.load("state", "state")
        process.goto(f"{at}:no", lambda r: r["state"] not in (HOME_FREE, HOME_ASKING))
        process.store("home", 1)
        process.load("state", "state")
        process.goto(f"{at}:ok", lambda r: r["state"] == HOME_FREE)
        process.store("home", 0, release=True)
        if wrong == "home gives up before it has looked again":
            process.goto(f"{at}:no", lambda r: r["state"] != HOME_ASKING)
        elif wrong != "home looks again without a fence":
            process.fence()
        process.until(("state", lambda v, r: v != HOME_ASKING))
        process.goto(at)
        return
    process.load("home", "home")
    process.goto(f"{at}:no", lambda r: r["home"] == 1)
    _home_ask(process, at, wrong, others, looks=1)


def _home_ask(process: Process, at: str, wrong: str, others: list[str], looks: int) -> None:
    """As a guest, which takes it where home is out at one of that many looks."""
    process.label(f"{at}:ask")
    process.compare_swap("state", "state", HOME_FREE, HOME_ASKING)
    process.goto(f"{at}:asks", lambda r: r["state"] == HOME_FREE)
    if wrong == "who asks is taken for one who works":
        process.goto(f"{at}:no")
    process.goto(f"{at}:no", lambda r: r["state"] != HOME_ASKING)
    process.until(("state", lambda v, r: v != HOME_ASKING))
    process.goto(f"{at}:ask")
    process.label(f"{at}:asks")
    if wrong != "guest asks without the heavy barrier":
        for other in others:
            process.heavy(other)
    for _ in range(looks):
        process.load("home", "home")
        process.goto(f"{at}:looked", lambda r: r["home"] == 0)
    process.label(f"{at}:looked")
    process.store("state", lambda r: HOME_FREE if r["home"] else HOME_TAKEN, release=True)
    process.goto(f"{at}:no", lambda r: r["home"] == 1)
    process.goto(f"{at}:ok")


def _home_hold(
    process: Process, at: str, wrong: str, others: list[str], home: bool, pumps: bool, again: str = ""
) -> None:
    """With the pump in hand, at `at`:ok: pumps, or posts past its queue; release, look; ends at `at`:no."""
    process.label(f"{at}:ok")
    process.load("holders", "holders")
    process.check(lambda r: r["holders"] == 0, "two hold the pump")
    process.store("holders", 1)
    if not pumps:
        process.goto(f"{at}:release", lambda r: r["mark"] == 0)
    process.load("mark", "mark")
    process.goto(f"{at}:ship", lambda r: r["mark"] == 0)
    process.store("mark", 0)
    process.fence()
    process.label(f"{at}:ship")
    process.load("seen", "posted")
    process.store("shipped", lambda r: r["seen"])
    process.label(f"{at}:release")
    process.do(lambda r: r.update(mark=0, seen=0, state=0, home=0))
    process.store("holders", 0)
    process.store("home" if home else "state", 0, release=True)
    if not home:
        process.fence()
    process.load("mark", "mark")
    process.goto(again or at, lambda r: r["mark"] == 1)
    process.label(f"{at}:no")
    process.do(lambda r: r.update(mark=0, seen=0, state=0, home=0))


def _home_post(process: Process, wrong: str, others: list[str], wanted: bool = False) -> None:
    """A guest leaves one message behind, and kicks."""
    barrier = [] if wrong == "poster without the heavy barrier" else others
    process.store("posted", 1, release=True)
    process.load("state", "state")
    process.goto("kick:no", lambda r: r["state"] >= HOME_HANDED)
    process.fence()
    for other in barrier:
        process.heavy(other)
    process.store("mark", 1)
    process.fence()
    for other in barrier:
        process.heavy(other)
    process.load("state", "state")
    if wrong == "who asks is taken for one who works":
        process.goto("kick:no", lambda r: r["state"] != HOME_FREE)
    process.goto("kick:no", lambda r: r["state"] not in (HOME_FREE, HOME_ASKING))
    process.load("home", "home")
    process.goto("kick:no", lambda r: r["home"] == 1)
    _home_take(process, "kick", wrong, others, home=False, wanted=wanted)
    _home_hold(process, "kick", wrong, others, home=False, pumps=True)
    process.store("done:poster", 1, release=True)


def _home_model(processes: list[Process], memory: dict[str, int]) -> Model:
    judge = Process("judge", {"shipped": 0}, mortal=False)
    for process in processes:
        judge.until((f"done:{process.name}", _is_set))
    judge.load("shipped", "shipped")
    judge.check(lambda r: r["shipped"] == 1, "a message was left behind")
    names = ["state", "home", "wanted", "mark", "posted", "shipped", "holders"]
    names += [f"done:{process.name}" for process in processes]
    return Model([*processes, judge], dict.fromkeys(names, 0) | memory)


def _home_process(name: str) -> Process:
    return Process(name, dict.fromkeys(["state", "home", "mark", "seen", "holders"], 0), mortal=False)


def home(wrong: str = "") -> Model:
    """A message is left behind while home and a guest take the pump and release it without a look at it."""
    processes = [_home_process(name) for name in ("home", "guest", "poster")]
    for process in processes[:2]:
        at_home = process.name == "home"
        others = [other.name for other in processes if other is not process]
        _home_take(process, "try", wrong, others, at_home)
        _home_hold(process, "try", wrong, others, at_home, pumps=False)
        process.store(f"done:{process.name}", 1, release=True)
    _home_post(processes[2], wrong, ["home", "guest"])
    return _home_model(processes, {})


def home_wanted(wrong: str = "") -> Model:
    """A guest takes the pump before others, for whom home makes way; another one leaves its message to it."""
    keeper, taker, poster = (_home_process(name) for name in ("home", "taker", "poster"))
    _home_take(keeper, "try", wrong, [], home=True)
    _home_hold(keeper, "try", wrong, [], home=True, pumps=False)
    keeper.store("done:home", 1, release=True)
    taker.store("wanted", 1)
    taker.label("try:no")
    _home_ask(taker, "try", wrong, ["home", "poster"], looks=2)
    taker.label("try:ok")
    if wrong not in HOME_WANTED_WRONG:
        taker.store("wanted", 0)
    _home_hold(taker, "held", wrong, ["home", "poster"], home=False, pumps=False, again="look")
    taker.goto("over")
    taker.label("look")
    _home_take(taker, "look", wrong, ["home", "poster"], home=False)
    _home_hold(taker, "look", wrong, ["home", "poster"], home=False, pumps=True)
    taker.label("over")
    if wrong in HOME_WANTED_WRONG:
        taker.store("wanted", 0)
    taker.store("done:taker", 1, release=True)
    _home_post(poster, wrong, ["home", "taker"], wanted=True)
    return _home_model([keeper, taker, poster], {})


def home_hands(wrong: str = "") -> Model:
    """Home hands over to the service thread, which pumps and releases before home has gone."""
    keeper, service, poster = (_home_process(name) for name in ("home", "service", "poster"))
    keeper.compare_swap("state", "state", HOME_FREE, HOME_HANDED, release=True)
    keeper.store("home", 0, release=True)
    keeper.store("done:home", 1, release=True)
    service.until(("state", lambda v, r: v == HOME_HANDED))
    service.compare_swap("state", "state", HOME_HANDED, HOME_ADOPTED)
    if wrong != "adopted before home has let go":
        service.until(("home", lambda v, r: v == 0))
    service.load("seen", "posted")
    service.store("shipped", lambda r: r["seen"])
    service.store("state", HOME_FREE, release=True)
    for other in ("home", "poster"):
        service.heavy(other)
    service.store("mark", 1)
    for other in ("home", "poster"):
        service.heavy(other)
    _home_take(service, "try", wrong, ["home", "poster"], home=False)
    _home_hold(service, "try", wrong, ["home", "poster"], home=False, pumps=True)
    service.store("done:service", 1, release=True)
    _home_post(poster, wrong, ["home", "service"])
    return _home_model([keeper, service, poster], {"home": 1})


# ---- native/src/scheduler/scheduler.cc: a queue goes to rest while somebody posts into it -----------------

REST_WRONG = [
    "no heavy barrier before the second look",
    "no second look",
    "active is looked at before the push",
    "the pump is looked at before the activation",
]


def _look(process: Process, at: str) -> None:
    """The pump's: takes up who was activated, and ships what a queue in the ring has."""
    process.load("seen", "activated")
    process.goto(f"{at}:ring", lambda r: r["seen"] == 0)
    process.store("activated", 0)
    process.fence()
    process.store("in_ring", 1)
    process.label(f"{at}:ring")
    process.load("seen", "in_ring")
    process.goto(f"{at}:looked", lambda r: r["seen"] == 0)
    process.load("seen", "posted")
    process.store("shipped", lambda r: r["seen"])
    process.label(f"{at}:looked")
    process.do(lambda r: r.update(seen=0))


def rest(wrong: str = "", posts: int = 2) -> Model:
    """The service thread sends a queue to rest and gives the pump away; a poster has a light barrier."""
    poster = Process("poster", {"active": 0, "pump": 0, "seen": 0}, mortal=False)
    for item in range(1, posts + 1):
        over, awake = f"over{item}", f"awake{item}"
        if wrong == "active is looked at before the push":
            poster.load("active", "active")
            poster.store("posted", item, release=True)
        else:
            poster.store("posted", item, release=True)
            poster.load("active", "active")
        if wrong == "the pump is looked at before the activation":
            poster.load("pump", "pump")
        poster.goto(awake, lambda r: r["active"] == 1)
        poster.swap("active", "active", 1, release=True)
        poster.goto(awake, lambda r: r["active"] == 1)
        poster.swap("active", "activated", 1, release=True)
        poster.fence()
        poster.label(awake)
        if wrong != "the pump is looked at before the activation":
            poster.load("pump", "pump")
        poster.goto(over, lambda r: r["pump"] >= HANDED)
        poster.fence()
        poster.label(f"kick{item}")  # where the pump is taken: what `left_behind` is about, here a wait
        poster.compare_swap("pump", "pump", FREE, TAKEN)
        poster.goto(f"kick{item}", lambda r: r["pump"] != FREE)
        _look(poster, f"mine{item}")
        poster.store("pump", FREE, release=True)
        poster.label(over)
        poster.do(lambda r: r.update(active=0, pump=0))
    poster.store("done:one", 1, release=True)

    service = Process("service", {"seen": 0, "before": 0, "pump": 0}, mortal=False)
    service.label("first")
    service.load("seen", "posted")
    service.store("shipped", lambda r: r["seen"])
    service.goto("empty", lambda r: r["seen"] == r["before"])
    service.do(lambda r: r.update(before=r["seen"]))
    service.goto("first")
    service.label("empty")
    service.store("in_ring", 0)
    service.store("active", 0)
    if wrong != "no heavy barrier before the second look":
        service.heavy("poster")
    if wrong != "no second look":
        service.load("seen", "posted")
        service.goto("release", lambda r: r["seen"] == r["before"])
        service.swap("seen", "active", 1, release=True)
        service.goto("release", lambda r: r["seen"] == 1)  # the poster has it, and tells us
        service.store("in_ring", 1)
    service.label("release")
    service.store("pump", FREE, release=True)
    service.heavy("poster")
    service.label("again")
    service.compare_swap("pump", "pump", FREE, TAKEN)
    service.goto("again", lambda r: r["pump"] != FREE)
    _look(service, "last")
    service.store("pump", FREE, release=True)
    service.store("done:service", 1, release=True)
    memory = dict.fromkeys(["posted", "shipped", "activated", "done:one", "done:service"], 0)
    memory |= {"active": 1, "in_ring": 1, "pump": ADOPTED}
    judge = Process("judge", {"shipped": 0}, mortal=False)
    judge.until(("done:one", _is_set))
    judge.until(("done:service", _is_set))
    judge.load("shipped", "shipped")
    judge.check(lambda r: r["shipped"] == posts, "a message was left behind")
    return Model([poster, service, judge], memory)


# ---- native/src/conversation/queued.cc: several receivers, of which one waits in the transport ----------

FOLLOWERS_WRONG = [
    "who leaves calls nobody",
    "who follows does not look again",
    "who leaves is not waited for",
    "leaves is loaded behind the look",
]
CALLED_WRONG = ["a call that found nobody stays"]
GIVES_UP_WRONG = ["who was called and gives up calls nobody"]


def _call_follower(process: Process, at: str) -> None:
    """wake_follower"""
    process.load("there", "followers")
    process.goto(at, lambda r: r["there"] == 0)
    process.load("there", "called")
    process.goto(at, lambda r: r["there"] == 1)
    process.store("called", 1)
    process.swap("there", "leaves", lambda r: r["there"] + 1, release=True)
    process.wake_one("leaves")
    process.label(at)


def _end_following(process: Process, at: str) -> None:
    """Following::end"""
    process.goto(at, lambda r: r["on"] == 0)
    process.swap("there", "followers", lambda r: r["there"] - 1)
    process.swap("there", "called", 0)
    process.do(lambda r: r.update(call=r["call"] | r["there"], there=0))
    process.label(at)
    process.do(lambda r: r.update(on=0))


def _queued_receiver(
    name: str, others: list[str], wrong: str, bounded: bool, count: int, begin: str
) -> Process:
    """take_queued, until it has received `count` messages; of none: sleeps once, looks again, gives up."""
    gives_up = count == 0
    registers = dict.fromkeys(["seen", "there", "taken", "on", "leads", "call", "got", "woken"], 0)
    process = Process(name, registers | {"on": int(begin == "sleep")}, mortal=False)
    process.goto(begin)
    process.label("look")
    process.goto("counted", lambda r: r["on"] == 1)
    if wrong != "leaves is loaded behind the look":
        process.load("seen", "leaves")
    process.label("counted")
    process.compare_swap("leads", "landing", FREE, TAKEN)
    process.do(lambda r: r.update(leads=int(r["leads"] == FREE)))
    if bounded:
        process.goto("decided", lambda r: r["leads"] == 1)
        process.until(("landing", lambda v, r: v == FREE), ("waits", _is_set))
        process.load("there", "waits")
        process.goto("counted", lambda r: r["there"] == 0)
        process.label("decided")
    process.goto("look in the queue", lambda r: r["leads"] == 0)
    process.load("taken", "taken")
    process.load("there", "landed")
    if bounded:
        process.store("taken", lambda r: r["there"])
        process.do(lambda r: r.update(taken=r["there"] - r["taken"]))
        process.swap("there", "queue", lambda r: r["there"] + r["taken"])
        process.load("taken", "taken")
    else:
        process.goto("nothing", lambda r: r["there"] == r["taken"])
        process.store("taken", lambda r: r["taken"] + 1)
        process.goto("leave")
    process.label("look in the queue")
    if bounded:
        process.swap("there", "queue", lambda r: max(0, r["there"] - 1))
        process.goto("leave", lambda r: r["there"] > 0)
    process.goto("nothing")

    process.label("leave")
    process.do(lambda r: r.update(got=r["got"] + 1, taken=0, there=0))
    process.goto("released", lambda r: r["leads"] == 0)
    process.store("landing", FREE, release=True)
    process.label("released")
    _end_following(process, "left")
    if wrong == "who was called and gives up calls nobody":
        process.do(lambda r: r.update(call=0))
    process.goto("gone", lambda r: r["leads"] == 0 and r["call"] == 0)
    if wrong != "who leaves calls nobody":
        _call_follower(process, "gone")
    process.label("gone")
    process.do(lambda r: r.update(there=0, seen=0, leads=0, call=0))
    process.goto("look", lambda r: r["got"] < count)
    process.goto("over")

    process.label("nothing")
    process.goto("leave", lambda r: r["woken"] == 1)
    process.goto("follow", lambda r: r["leads"] == 0)
    process.store("waits", 1, release=True)
    process.label("wait")
    process.until(("landed", lambda v, r: v > r["taken"]))
    process.store("waits", 0, release=True)
    process.store("landing", FREE, release=True)
    process.do(lambda r: r.update(there=0, taken=0, leads=0))
    process.goto("look")

    process.label("follow")
    process.do(lambda r: r.update(there=0, taken=0, leads=0))
    process.goto("sleep", lambda r: r["on"] == 1)
    if wrong != "a call that found nobody stays":
        process.store("called", 0)
    process.swap("there", "followers", lambda r: r["there"] + 1, release=True)
    process.fence()
    process.do(lambda r: r.update(on=1, there=0))
    if wrong == "leaves is loaded behind the look":
        process.load("seen", "leaves")
    if wrong != "who leaves is not waited for":
        process.load("there", "waits")
        process.goto("look", lambda r: r["there"] == 1)
        for other in others:  # no store stays in its buffer for as long as we glance
            process.heavy(other)
    if wrong != "who follows does not look again":
        process.goto("look")
    process.label("sleep")
    process.wait("leaves", lambda r: r["seen"])
    _end_following(process, "awake")
    process.do(lambda r: r.update(seen=0, woken=int(gives_up)))
    process.goto("look")
    process.label("over")
    return process


def _followers(
    wrong: str, counts: tuple[int, ...], landings: list[int], bounded: bool, asleep: bool, sequential: bool
) -> Model:
    """Messages land, so many by then; one for each that is wanted. `asleep`: all wait, the first leads."""
    names = [f"receiver {i}" for i in range(len(counts))]
    begins = ["wait", *["sleep"] * (len(counts) - 1)] if asleep else ["look"] * len(counts)
    receivers = [
        _queued_receiver(name, [other for other in names if other != name], wrong, bounded, count, begin)
        for name, count, begin in zip(names, counts, begins, strict=True)
    ]
    peer = Process("peer", mortal=False)
    for landed in landings:
        peer.store("landed", landed, release=True)
    memory = ["landing", "waits", "followers", "called", "leaves", "landed", "taken", "queue"]
    there = {"landing": TAKEN, "waits": 1, "followers": len(counts) - 1} if asleep else {}
    return Model([*receivers, peer], dict.fromkeys(memory, 0) | there, sequential)


def followers(wrong: str = "") -> Model:
    """One of two receives twice."""
    return _followers(wrong, (2, 1), [1, 2, 3], bounded=False, asleep=False, sequential=False)


def followers_bounded(wrong: str = "") -> Model:
    """Who lands puts all that has come into the queue."""
    return _followers(wrong, (1, 1, 1), [1, 2, 3], bounded=True, asleep=True, sequential=False)


def called(wrong: str = "") -> Model:
    """Two of three follow, and the first comes back."""
    return _followers(wrong, (2, 1, 1), [3, 4], bounded=False, asleep=True, sequential=True)


def gives_up(wrong: str = "") -> Model:
    """The time of one who follows is over when it has been called."""
    return _followers(wrong, (2, 0, 1), [3, 4], bounded=False, asleep=True, sequential=False)
