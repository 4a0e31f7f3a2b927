"""Jobs of many writers: of each task the first commit counts, once, and the job shows as it was committed."""

from __future__ import annotations

from .oracle import HANG_S, Broken, expect
from .players import PARTITIONS, Player, listen, until
from .scene import Scene

TASKS = 3


def job_round(s: Scene) -> None:
    reader = _open(s, order=s.case.victim == "endpoint")
    if not _run_job(s, "first", 0, with_death=True):
        if s.living("endpoint"):
            _all_or_nothing(s, reader)
        else:
            if reader.said("open"):  # else it waits for the next endpoint
                expect(
                    s.players, HANG_S, f"{reader} did not notice", lambda: reader.said("failed") is not None
                )
            _open(s, order=False)
        if not _run_job(s, "second", 8, with_death=False):
            raise Broken("the job that nobody disturbed has failed")
    s.close_all(("reader", "endpoint"))


def _open(s: Scene, order: bool) -> Player:
    """The endpoint, and the reader that is returned."""
    endpoint = s.start("endpoint", serves=True, order=order)
    expect(s.players, HANG_S, f"{endpoint} does not open", lambda: endpoint.said("open") is not None)
    return s.start("reader", hold=2)


def _run_job(s: Scene, name: str, first_id: int, with_death: bool) -> bool:
    """Every task twice, as Spark may do it; then the job's commit. False when the job could not succeed."""
    job = s.start("job", order=with_death and s.case.victim == "job", job=name)

    def begun() -> bool:
        return job.said("open") is not None or job.said("failed") is not None or not job.alive

    expect(s.players, HANG_S, f"{job} does not open", begun)
    tasks: list[Player] = []
    for attempt in range(2):
        for task in range(TASKS):
            struck = with_death and s.case.victim == "task" and attempt == 0 and task == 0
            id = first_id + task * 2 + attempt
            tasks.append(s.start("task", order=struck, job=name, task=task, attempt=attempt, id=id))
        _tasks_end(s, tasks)
    commits = _commits(tasks)
    job.close("".join(f"{task} {attempt} {batches}\n" for task, (attempt, batches) in commits.items()))
    expect(s.players, HANG_S, f"{job} does not end", lambda: not job.alive)
    listen(s.players, 0)
    if job.died_ns:
        return False
    closed = job.said("closed")
    if closed and closed.rest == "LWMQ_OK" and len(commits) == TASKS and s.living("endpoint"):
        _reader_has_exactly(s, first_id, {task: attempt for task, (attempt, _) in commits.items()})
        return True
    if s.living("endpoint"):
        raise Broken(f"{job} failed although the endpoint lives: {commits}")
    return False


def _tasks_end(s: Scene, tasks: list[Player]) -> None:
    def ended() -> bool:
        return not any(player.alive for player in tasks)

    expect(s.players, HANG_S, "tasks do not end", lambda: ended() or not s.living("endpoint"))
    if not s.living("endpoint"):
        until(s.players, 0.1, ended)
        for player in tasks:  # those that have not connected would wait for the next one
            player.kill()
    listen(s.players, 0)


def _commits(tasks: list[Player]) -> dict[int, tuple[int, int]]:
    """Task to attempt and number of batches, as the endpoint has answered."""
    commits = {}
    for player in tasks:
        player.read()
        if line := player.said("committed"):
            won, attempt, batches = map(int, line.rest.split())
            commits[int(str(player.settings["task"]))] = (attempt, batches)
            if won and attempt != player.settings["attempt"]:
                raise Broken(f"{player} won as attempt {attempt}")
    return commits


def _read(reader: Player, first_id: int) -> list[int]:
    """How many batches the reader has of each attempt."""
    return [sum(reader.next(first_id + i, p) for p in range(PARTITIONS)) for i in range(TASKS * 2)]


def _reader_has_exactly(s: Scene, first_id: int, winners: dict[int, int]) -> None:
    """Of each task all batches of one attempt, and none of the other."""
    readers = s.living("reader")
    if not readers:
        raise Broken("no reader is left")
    reader = readers[-1]
    count = int(str(s.case.settings["count"]))
    wanted = [count if winners[i // 2] == i % 2 else 0 for i in range(TASKS * 2)]
    expect(s.players, HANG_S, f"{reader} lacks batches", lambda: sum(_read(reader, first_id)) >= sum(wanted))
    until(s.players, 0.005, lambda: False)
    if _read(reader, first_id) != wanted:
        raise Broken(
            f"{reader} has {_read(reader, first_id)} batches of the attempts, {wanted} were committed"
        )


def _all_or_nothing(s: Scene, reader: Player) -> None:
    """The job's driver has died: of a task all is visible or nothing, and with delivery=job of the job."""
    until(s.players, 0.05, lambda: False)
    count = int(str(s.case.settings["count"]))
    seen = _read(reader, 0)
    per_task = [seen[2 * task] + seen[2 * task + 1] for task in range(TASKS)]
    if any(batches not in (0, count) for batches in seen):
        raise Broken(f"{reader} has {seen} batches of attempts that wrote {count}")
    if s.case.settings["delivery"] == 2 and per_task not in ([0] * TASKS, [count] * TASKS):
        raise Broken(f"{reader} has {per_task} batches of a job that committed as a whole")
