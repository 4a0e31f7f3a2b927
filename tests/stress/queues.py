"""Channels: a poster and a taker, queues of any kind or raw buffers between them; and the death of either."""

from __future__ import annotations

from . import oracle
from .oracle import GONE, HANG_S, Broken, expect
from .players import Player, until
from .scene import OPEN_S, Scene

_ROLES = ("poster", "taker")
THREADS = 3


def queue_round(s: Scene) -> None:
    """What is taken is whole and in its poster's order; who survives goes on with the next peer."""
    case = s.case
    players = [s.start(role, serves=role == case.serves, order=role == case.victim) for role in _ROLES]
    victim, other = sorted(players, key=lambda player: player.role != case.victim)

    def died() -> bool:
        return bool(victim.died_ns) and not victim.alive

    def flow() -> bool:
        return all(player.batches >= oracle.FLOWING for player in players)

    expect(s.players, OPEN_S, "nothing flows", lambda: died() or flow())
    until(s.players, case.after_s, died)
    if (case.point and not died()) or not case.point:  # it does not come to its point that often
        victim.kill()
    expect(s.players, HANG_S, f"{victim} does not die", lambda: not victim.alive)
    if other.said("met") and victim.said("met"):
        oracle.notices(other, [other], victim.died_ns, "lost", GONE)
    second = s.start(victim.role, serves=victim.serves)
    expect(s.players, OPEN_S, f"{second} does not open", lambda: second.said("open") is not None)
    pair = [other, second]
    expect(s.players, OPEN_S, f"some of {pair} do not go on", lambda: _flows(pair, second))
    oracle.sound(s.players)
    poster, taker = (next(player for player in pair if player.role == role) for role in _ROLES)
    if s.case.settings["keeps_all"]:  # a thread that rests since the death would seem to have lost some
        expect(pair, OPEN_S, f"{taker} hears not all of {poster}", lambda: _hears_all(taker, poster))
    poster.close()
    expect(s.players, HANG_S, f"{poster} does not close", lambda: not poster.alive)
    poster.read()
    line = poster.said("closed")
    if line is None or not line.rest.startswith("LWMQ_OK"):
        raise Broken(f"{poster} could not close in order")
    if s.case.settings["keeps_all"]:
        expect(s.players, HANG_S, f"{taker} lacks messages of {poster}", lambda: _has_all(taker, poster))
    taker.close()
    expect(s.players, HANG_S, f"{taker} does not close", lambda: not taker.alive)


def _flows(pair: list[Player], second: Player) -> bool:
    """Both move, and what moves is the second one's doing."""
    before = [player.batches for player in pair]
    until(pair, 0.02, lambda: False)
    return second.batches >= oracle.FLOWING and all(
        player.batches > was for player, was in zip(pair, before, strict=True)
    )


def _hears_all(taker: Player, poster: Player) -> bool:
    return all(
        taker.next(poster.id, thread) for thread in range(THREADS) if poster.next(poster.id, thread)
    )


def _has_all(taker: Player, poster: Player) -> bool:
    return all(
        taker.next(poster.id, thread) == poster.next(poster.id, thread)
        for thread in range(THREADS)
        if poster.next(poster.id, thread)
    )
