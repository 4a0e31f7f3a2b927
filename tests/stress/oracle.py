"""What must hold in a round, whoever dies: the invariants of the project as questions to the players.

Every check raises Broken with what was seen. Nothing here is a matter of how fast: what is awaited has a
limit that a machine which is busy with other things keeps as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from .players import PARTITIONS, Player, is_bound, until

HANG_S = 60.0  # for what comes within milliseconds on an idle machine
FLOWING = 5  # batches that show that somebody goes on

GONE = ("LWMQ_E_PEER_LOST", "LWMQ_E_CLOSED")


noticed_ms: list[float] = []  # by all rounds so far, for the report


class Broken(AssertionError):
    """An invariant does not hold."""


def expect(players: Iterable[Player], seconds: float, what: str, condition: Callable[[], bool]) -> None:
    players = list(players)
    came = until(players, seconds, lambda: condition() or _has_seen_wrong(players))
    if _has_seen_wrong(players):
        sound(players)  # says what; whoever has seen it plays on no more
    if not came:
        raise Broken(f"{what}: not within {seconds:g} s")


def _has_seen_wrong(players: Iterable[Player]) -> bool:
    return any(player.said("torn") or player.said("disorder") for player in players)


def notices(
    player: Player, others: list[Player], died_ns: int, what: str, starts_with: tuple[str, ...] = ("",)
) -> None:
    """The player says `what` after a death, and nothing else than expected.

    How soon is kept for the report. A reader's time begins when it has read what was visible before.
    """
    heard = f"{player} did not notice a death"
    expect([player, *others], HANG_S, heard, lambda: player.said(what) is not None)
    line = player.said(what)
    assert line
    asked = player.said("asked")
    noticed_ms.append((line.ns - max(died_ns, int(asked.rest) if asked else 0)) / 1e6)
    if not line.rest.startswith(starts_with):
        raise Broken(f"{player} noticed a death as: {line.rest}")


def sound(players: Iterable[Player]) -> None:
    """Nobody has seen a torn batch, a gap or a repetition, and nobody has crashed."""
    for player in players:
        for what in ("torn", "disorder", "said"):
            if line := player.said(what):
                raise Broken(f"{player}: {what} {line.rest}")
        code = player.process.poll()
        if code not in (None, 0) and not player.died_ns:
            raise Broken(f"{player} ended with status {code}")


def flows(players: list[Player], others: list[Player]) -> None:
    """Every writer and reader of `players` goes on."""
    before = {player.name: player.batches for player in players}

    def moved() -> bool:
        return all(player.batches >= before[player.name] + FLOWING for player in players)

    expect([*players, *others], HANG_S, f"some of {players} have stopped", moved)


def takes_all_of(reader: Player, writer: Player) -> None:
    """What was published before its writer died or closed arrives; one more may have been on its way."""

    def published_and_got(partition: int) -> tuple[int, int]:
        return writer.next(writer.id, partition), reader.next(writer.id, partition)

    def all_here() -> bool:
        pairs = map(published_and_got, range(PARTITIONS))
        return all(got >= published for published, got in pairs) or reader.said("failed") is not None

    expect([reader], HANG_S, f"{reader} lacks batches of {writer}", all_here)
    for partition in range(PARTITIONS):
        published, got = published_and_got(partition)
        if got > published + (1 if writer.died_ns else 0):
            raise Broken(
                f"{reader} has {got} batches of {writer}, partition {partition}, which published {published}"
            )


def went_on_from(second: Player, first: Player) -> None:
    """The next reader begins where the killed one stood: no gap; the batch in hand may come again."""
    for line in [line for line in second.lines if line.what == "first"]:
        writer, partition, number = map(int, line.rest.split())
        stood = first.next(writer, partition)
        if not stood - 1 <= number <= stood:
            raise Broken(
                f"writer {writer}, partition {partition}: {first} had read up to {stood}, "
                f"{second} begins at {number}"
            )


def nothing_left(address: str, folder: Path) -> None:
    if is_bound(address):
        raise Broken(f"{address} is still in the socket table")
    litter = [path.name for path in folder.iterdir() if path.suffix != ".board"]
    litter += [path.name for path in Path("/dev/shm").glob("*lwmq*")]
    if litter:
        raise Broken(f"left behind: {litter}")
