"""Rounds: some players at one address, a death or a stop among them, and what the others make of it."""

from __future__ import annotations

import re
import time

from . import oracle
from .case import STALL_MS, Case
from .jobs import job_round
from .oracle import GONE, HANG_S, Broken, expect
from .players import Player, until
from .queues import hub_round, queue_round
from .scene import SETTLE_S, Scene, scene


def run(case: Case, out_players: list[Player] | None = None) -> None:
    """Raises Broken where an invariant does not hold."""
    with scene(case) as s:
        if out_players is not None:
            s.players = out_players
        ROUND[case.kind](s)


def again(seed: str, number: int, queues: bool = False) -> str:
    return f"python -m tests.stress --kills 1 --seed {seed} --first {number}" + " --queues" * queues


def _stage(s: Scene) -> Player:
    """Everybody of the case comes; returns the one who is to die or to stop."""
    case = s.case
    roles = ["writer"] * case.writers + ["reader"] * case.readers
    for role in roles + (["endpoint"] if case.serves == "endpoint" else []):
        first = all(player.role != role for player in s.players)
        s.start(role, serves=first and role == case.serves, order=first and role == case.victim)
    return next(player for player in s.players if player.role == case.victim)


def _finish(s: Scene) -> None:
    """Everybody closes in order; what a writer has closed with has arrived."""
    s.close_all(("writer",))
    for writer in s.players:
        if writer.role == "writer" and writer.said("closed") and not writer.died_ns:
            for reader in s.living("reader"):
                if _was_there(reader, writer):
                    oracle.takes_all_of(reader, writer)
    s.close_all(("reader", "endpoint"))


def _was_there(reader: Player, writer: Player) -> bool:
    """The reader has read from the writer's first batch on."""
    begun = {line.rest for line in reader.lines if line.what == "first"}
    return all(f"{writer.id} {p} 0" in begun for p in range(writer.partitions))


# ---- A death in the middle of a stream -------------------------------------------------------------------


def stream_round(s: Scene) -> None:
    victim = _stage(s)
    _die(s, victim)
    _others_notice(s, victim)
    _replace_and_flow(s, victim)
    _finish(s)


def _die(s: Scene, victim: Player) -> None:
    """The victim dies at its point; where that is not passed in time, at its orderly end, or else anyway."""
    others = [player for player in s.players if player is not victim]
    busy = [player for player in s.players if player.role != "endpoint"]

    def gone() -> bool:
        return victim.died_ns != 0 or not victim.alive

    def runs() -> bool:
        return all(p.said("open") for p in others) and all(p.batches >= oracle.FLOWING for p in busy)

    until(s.players, SETTLE_S, lambda: gone() or runs())
    until(s.players, s.case.after_s, gone)
    if s.case.point and not gone():
        victim.close()
        until(s.players, 0.2, gone)
    at_its_point = victim.died_ns != 0
    victim.kill()
    if not at_its_point and victim.said("closed"):
        victim.died_ns = 0  # it had ended in order before


def _others_notice(s: Scene, victim: Player) -> None:
    if not victim.died_ns:
        return
    others = [player for player in s.players if player is not victim]
    there = [player for player in others if (line := player.said("open")) and line.ns < victim.died_ns]
    for player in there:
        if victim.serves:
            oracle.notices(player, others, victim.died_ns, "failed", GONE)
        elif victim.told_to_close or not victim.said("open"):
            continue  # an orderly end, or nobody had heard of it
        elif (victim.role, player.role) == ("reader", "endpoint"):
            oracle.notices(player, others, victim.died_ns, "peer_lost")
        elif (victim.role, player.role) == ("writer", "reader") and player.has_read(victim):
            oracle.notices(player, others, victim.died_ns, "aborted")
            if _was_there(player, victim):
                oracle.takes_all_of(player, victim)


def _replace_and_flow(s: Scene, victim: Player) -> None:
    """Whoever is missing comes anew, the server at once; then everything flows, also what was not touched."""
    gone: list[Player] = []

    def complete() -> bool:
        """Replaces those that have gone since; one that was opening hears of a death a little later."""
        living = s.living()
        missing = [player for player in s.players if player not in living and player not in gone]
        for player in sorted(missing, key=lambda player: not player.serves):
            gone.append(player)
            same = {"as": player.settings["as"]} if "as" in player.settings else {}
            new = s.start(player.role, serves=player.serves, **same)
            if player.serves:
                free = f"{new}: its address is not free"
                expect(s.players, HANG_S, free, lambda p=new: p.said("open") is not None)
        return not missing and all(player.said("open") for player in living)

    expect(s.players, HANG_S, "somebody does not open", complete)
    oracle.flows(s.living("writer", "reader"), s.living("endpoint"))
    first_hand = victim.role == "reader" and not victim.serves and s.case.readers == 1
    if first_hand and victim.died_ns and not victim.told_to_close:
        oracle.went_on_from(s.living("reader")[0], victim)


# ---- Somebody is stopped, and goes on ----------------------------------------------------------------------


def stop_round(s: Scene) -> None:
    """A stop is no death: everybody waits and goes on where he was. Killed while it is stopped, it is one."""
    victim = _stage(s)
    others = [player for player in s.players if player is not victim]

    def stopped() -> bool:
        return victim.said("yield") is not None

    until(s.players, SETTLE_S, lambda: stopped() or all(p.said("open") for p in s.players))
    until(s.players, s.case.after_s, stopped)
    victim.stop()
    until(others, 0.1, lambda: False)
    for player in others:
        if line := player.said("failed") or player.said("aborted"):
            raise Broken(f"{player} takes a stop for a death: {line.rest}")
    if s.case.passing % 2 == 0:  # waited for
        victim.go_on()
        until(s.players, SETTLE_S, lambda: all(p.said("open") for p in s.players))
    else:  # given up
        victim.kill()
        _others_notice(s, victim)
    _replace_and_flow(s, victim)
    _finish(s)


def stall_round(s: Scene) -> None:
    """A stop that lasts: whoever waits for an endpoint is told, and goes on with it. A reader that keeps a
    writer waiting is expelled; the others go on meanwhile, and what it holds is not written over."""
    victim = _stage(s)
    others = [player for player in s.players if player is not victim]
    busy = [player for player in others if player.role != "endpoint"]

    def stopped() -> bool:
        return s.case.act == "stop" and victim.said("yield") is not None

    def runs() -> bool:
        return all(p.batches >= oracle.FLOWING for p in s.players if p.role != "endpoint")

    until(s.players, SETTLE_S, lambda: stopped() or runs())
    until(s.players, s.case.after_s, stopped)
    victim.stop()
    began_ns = time.monotonic_ns()
    if s.case.policy == "fail" and victim.said("open"):  # else it may serve nobody yet
        for player in busy:
            expect(s.players, HANG_S, f"{player} is not told", lambda p=player: _is_told(p, began_ns))
    elif s.case.policy == "expel" and all(player.said("open") for player in s.players):
        expect(
            others, HANG_S, "nobody is expelled", lambda: _flows_for(others, began_ns, 2 * STALL_MS / 1e3)
        )
        oracle.flows(busy, [player for player in others if player not in busy])
    victim.go_on()
    if s.case.policy == "expel":
        until(s.players, SETTLE_S, lambda: victim.said("failed") is not None)
        line = victim.said("failed")
        if line is not None and not re.match("LWMQ_E_DATA_LOSS .* was expelled at ", line.rest):
            raise Broken(f"{victim} was not told that it is expelled: {line.rest}")
    until(s.players, SETTLE_S, lambda: all(p.said("open") or p.said("failed") for p in s.players))
    _replace_and_flow(s, victim)
    _finish(s)


def _is_told(player: Player, since_ns: int) -> bool:
    waits = any(
        line.what == "waits" and "LWMQ_E_STALLED" in line.rest and line.ns >= since_ns
        for line in player.lines
    )
    failed = player.said("failed")  # while it opened
    return waits or (failed is not None and failed.rest.startswith("LWMQ_E_STALLED"))


def _flows_for(players: list[Player], since_ns: int, seconds: float) -> bool:
    """That long after the stop, whoever is left moves."""
    if time.monotonic_ns() - since_ns < seconds * 1e9:
        return False
    before = {player.name: player.batches for player in players}
    until(players, 0.05, lambda: False)
    return all(player.batches > before[player.name] for player in players if player.role != "endpoint")


# ---- Nobody dies -------------------------------------------------------------------------------------------


def calm_round(s: Scene) -> None:
    """Small windows, several writers and readers: nobody ever waits for room that is there."""
    for role in ["reader"] * s.case.readers + ["writer"] * s.case.writers:
        new = s.start(role, serves=not s.players)
        expect(s.players, HANG_S, f"{new} does not open", lambda p=new: p.said("open") is not None)
    until(s.players, s.case.after_s, lambda: False)
    oracle.sound(s.players)
    oracle.flows(s.players, [])
    _finish(s)


# ---- Offsets of an endpoint that is no more ----------------------------------------------------------------


def generation_round(s: Scene) -> None:
    """Offsets are void in another generation: a reader that comes back with them hears of it."""
    endpoint, writer, reader = s.start("endpoint", serves=True), s.start("writer"), s.start("reader")
    expect(s.players, HANG_S, "nothing flows", lambda: reader.batches >= oracle.FLOWING)
    until(s.players, s.case.after_s, lambda: False)
    endpoint.kill()
    for player in (reader, writer):
        oracle.notices(player, [reader, writer], endpoint.died_ns, "failed", GONE)
    opened = reader.said("open")
    assert opened
    second = s.start("endpoint", serves=True)
    expect(s.players, HANG_S, "the address is not free", lambda: second.said("open") is not None)
    writer = s.start("writer")
    expect(s.players, HANG_S, f"{writer} does not open", lambda: writer.said("open") is not None)
    back = s.start("reader", generation=opened.rest, start=1)
    expect(s.players, HANG_S, f"{back} waits", lambda: back.said("failed") is not None or back.batches > 0)
    line = back.said("failed")
    if line is None or not line.rest.startswith("LWMQ_E_DATA_LOSS"):
        raise Broken(f"{back} went on with offsets of another generation: {line}")
    s.start("reader")
    oracle.flows(s.living("writer"), s.players)
    _finish(s)


ROUND = {
    "stream": stream_round,
    "stop": stop_round,
    "stall": stall_round,
    "calm": calm_round,
    "generation": generation_round,
    "job": job_round,
    "queue": queue_round,
    "hub": hub_round,
}
