"""Channels: a poster and a taker, or a hub and its posters, with queues of any kind or raw buffers between
them; and the death of any of them.
"""

from __future__ import annotations

from . import oracle
from .oracle import GONE, HANG_S, Broken, expect
from .players import Player, until
from .scene import Scene

_ROLES = ("poster", "taker")
THREADS = 3


def queue_round(s: Scene) -> None:
    """What is taken is whole and in its poster's order; who survives goes on with the next peer."""
    players = [s.start(role, serves=role == s.case.serves, order=role == s.case.victim) for role in _ROLES]
    victim, other = sorted(players, key=lambda player: player.role != s.case.victim)
    _dies(s, victim)
    if other.said("met") and victim.said("met"):
        oracle.notices(other, [other], victim.died_ns, "lost", GONE)
    second = _successor(s, victim, [other])
    poster, taker = (next(player for player in (other, second) if player.role == role) for role in _ROLES)
    _ends_well(s, [poster], taker)


def hub_round(s: Scene) -> None:
    """Two posters at the address of a listener: each hears of the deaths that concern it, and no more."""
    hub = s.start("hub", serves=True, order=s.case.victim == "hub")
    posters = [s.start("poster", order=s.case.victim == "poster"), s.start("poster")]
    victim = hub if s.case.victim == "hub" else posters[0]
    _dies(s, victim)
    others = [player for player in s.players if player is not victim]
    for player in [hub] if victim is not hub else posters:
        if player.said("met") and victim.said("met"):
            oracle.notices(player, others, victim.died_ns, "lost", GONE)
    if victim is not hub and posters[1].said("lost"):
        raise Broken(f"{posters[1]} has lost its peer, which is not the one that died")
    second = _successor(s, victim, others)
    if victim is hub:
        hub = second
    else:
        posters[0] = second
    _ends_well(s, posters, hub)


def _dies(s: Scene, victim: Player) -> None:
    """At its point, or some time after everybody has begun."""

    def died() -> bool:
        return bool(victim.died_ns) and not victim.alive

    def flow() -> bool:
        return all(player.batches >= oracle.FLOWING for player in s.players)

    expect(s.players, HANG_S, "nothing flows", lambda: died() or flow())
    until(s.players, s.case.after_s, died)
    if (s.case.point and not died()) or not s.case.point:  # it does not come to its point that often
        victim.kill()
    expect(s.players, HANG_S, f"{victim} does not die", lambda: not victim.alive)


def _successor(s: Scene, victim: Player, others: list[Player]) -> Player:
    """One more in the place of the victim, with which everybody goes on."""
    second = s.start(victim.role, serves=victim.serves)
    expect(s.players, HANG_S, f"{second} does not open", lambda: second.said("open") is not None)
    everybody = [*others, second]
    expect(s.players, HANG_S, f"some of {everybody} do not go on", lambda: _flows(everybody, second))
    oracle.sound(s.players)
    return second


def _ends_well(s: Scene, posters: list[Player], taker: Player) -> None:
    """Everybody closes in order; what the posters have closed with has been taken."""
    keeps_all = s.case.settings["keeps_all"]
    for poster in posters:
        if keeps_all:  # a thread that rests since the death would seem to have lost some
            expect([*posters, taker], HANG_S, f"{taker} hears not all of {poster}",
                   lambda p=poster: _hears_all(taker, p))  # fmt: skip
        poster.close()
        expect(s.players, HANG_S, f"{poster} does not close", lambda p=poster: not p.alive)
        poster.read()
        line = poster.said("closed")
        if line is None or not line.rest.startswith("LWMQ_OK"):
            raise Broken(f"{poster} could not close in order")
        if keeps_all:
            expect(s.players, HANG_S, f"{taker} lacks messages of {poster}",
                   lambda p=poster: _has_all(taker, p))  # fmt: skip
    taker.close()
    expect(s.players, HANG_S, f"{taker} does not close", lambda: not taker.alive)


def _flows(players: list[Player], second: Player) -> bool:
    """All move, and what moves is the second one's doing."""
    before = [player.batches for player in players]
    until(players, 0.05, lambda: False)
    return second.batches >= oracle.FLOWING and all(
        player.batches > was for player, was in zip(players, before, strict=True)
    )


def _hears_all(taker: Player, poster: Player) -> bool:
    return all(taker.next(poster.id, thread) for thread in range(THREADS) if poster.next(poster.id, thread))


def _has_all(taker: Player, poster: Player) -> bool:
    return all(
        taker.next(poster.id, thread) == poster.next(poster.id, thread)
        for thread in range(THREADS)
        if poster.next(poster.id, thread)
    )
