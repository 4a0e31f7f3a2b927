"""The players of a round at their address, from the first to the last of them."""

from __future__ import annotations

import itertools
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from . import oracle
from .case import Case
from .oracle import HANG_S, Broken, expect
from .players import Player, listen

SETTLE_S = 2.0  # for what most often comes about, and need not
_numbers = itertools.count()


class Scene:
    """The players of a round, and their address."""

    def __init__(self, case: Case, folder: Path) -> None:
        self.case, self.folder = case, folder
        self.address = f"ipc://stress-{os.getpid()}-{next(_numbers)}"
        self.players: list[Player] = []
        self._ids = itertools.count()

    def start(self, role: str, *, serves: bool = False, order: bool = False, **more: object) -> Player:
        orders = dict(self.case.order) if order else {}
        if self.case.act == "list":
            orders["LWMQ_YIELD"] = "list"
        if self.case.planted:
            orders["LWMQ_PLANTED"] = self.case.planted
        name = f"{role}{len(self.players)}"
        settings = {"serves": int(serves)} | self.case.settings | more
        if order:
            settings |= self.case.victim_settings
        if role in ("writer", "poster"):
            settings.setdefault("id", next(self._ids))
        if role == "reader":  # what it still has to read when a peer dies must not take long
            settings["pace_us"] = min(50, int(str(settings.get("pace_us", 0))))
            if self.case.named:
                settings.setdefault("as", name)
        player = Player(role, self.address, self.folder, name, orders, **settings)
        self.players.append(player)
        return player

    def living(self, *roles: str) -> list[Player]:
        listen(self.players, 0)
        return [
            player
            for player in self.players
            if (not roles or player.role in roles)
            and not player.died_ns
            and not player.said("failed")
            and player.alive
        ]

    def close_all(self, roles: tuple[str, ...] = ("writer", "reader", "endpoint")) -> None:
        """In order, and everyone succeeds; a writer may hear of what went with a reader without a name."""
        ends = ["LWMQ_OK"]
        may_lose = not self.case.named and any(p.role == "reader" and p.died_ns for p in self.players)
        if may_lose:
            ends.append("LWMQ_E_DATA_LOSS")

        def is_gone(player: Player) -> bool:
            last = [p for p in self.players if p.role == "reader"][-1:]
            has_ended = [p for p in last if (line := p.said("failed")) and line.rest.startswith(ends[-1])]
            if player.alive and may_lose and has_ended and not self.living("reader"):
                self.start("reader")  # that one has heard what another writer has lost, which ends it
            return not player.alive

        for role in roles:
            closing = self.living(role)
            for player in closing:
                player.close()
            for player in closing:
                expect(self.players, HANG_S, f"{player} does not close", lambda p=player: is_gone(p))
                player.read()
                line = player.said("closed")
                if line is None and not player.said("open"):
                    continue  # it came too late
                if line is None or (role == "writer" and line.rest.split()[0] not in ends):
                    raise Broken(f"{player} could not close in order")

    def clear_away(self) -> None:
        for player in self.players:
            player.clear_away()


@contextmanager
def scene(case: Case) -> Iterator[Scene]:
    with tempfile.TemporaryDirectory(prefix="lwmq-stress-") as name:
        made = Scene(case, Path(name))
        try:
            yield made
            oracle.sound(made.players)
            made.clear_away()
            oracle.nothing_left(made.address, made.folder)
        except AssertionError as error:
            listen(made.players, 0)
            raise Broken(f"{error}\nin {case}\nwith {made.players}") from None
        finally:
            made.clear_away()
