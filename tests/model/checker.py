"""An interleaver: runs a few small programs over shared memory in every order, and kills them everywhere.

What it covers. Stores wait in a buffer of their process until they reach memory, at any later time. They
reach it in any order, but for three rules: stores to one address stay in order; a release store comes after
all that were made before it; a fence waits for the buffer to be empty. That is more than TSO (x86) allows,
and what C++ promises of relaxed and release stores. Loads see the own buffer first, then memory, in the order
of the program: each of ours is an acquire, or followed by one that decides; weaker loads are not covered. A
buffer holds three stores; a fourth waits. A swap reads and writes memory at once, a releasing one behind all
stores made before it. `heavy` empties the other's buffer, as membarrier(2) does. What may die does so before
each of its accesses; what is in its buffer still reaches memory, and only then its death word is set.

A program is a list of steps; only loads, stores, swaps, fences, waits and wakes are points where another may
come in between. Every state is visited once. A state is wrong where a check fails, or where nobody can move
and somebody who lives has not finished (a `daemon` may wait for ever).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

Registers = dict[str, int]
Value = int | Callable[[Registers], int]
Address = str | Callable[[Registers], str]
Buffer = tuple[tuple[int, int, bool], ...]
State = tuple[tuple[int, ...], tuple[tuple[int, ...], ...], tuple[int, ...], tuple[Buffer, ...]]

DEAD = -1  # as a program counter: killed; the death word is not yet set
GONE = -2  # its death word is set
BUFFER_MAX = 3
BEHIND_WAIT = 1 << 16  # added to a program counter: asleep


class Wrong(AssertionError):
    """A property does not hold; the text has the way there."""


@dataclass
class Process:
    """One program. Build it by calling its methods in order."""

    name: str
    registers: dict[str, int] = field(default_factory=dict)
    mortal: bool = True
    daemon: bool = False
    steps: list[tuple[str, tuple[object, ...]]] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)

    def _add(self, kind: str, *arguments: object) -> None:
        self.steps.append((kind, arguments))

    def store(self, address: Address, value: Value, release: bool = False) -> None:
        self._add("store", address, value, release)

    def load(self, register: str, address: Address) -> None:
        self._add("load", register, address)

    def until(self, *conditions: tuple[Address, Callable[[int, Registers], bool]]) -> None:
        """Looks again and again until one of the conditions holds; what holds is loaded by the next steps."""
        self._add("until", *conditions)

    def swap(self, register: str, address: Address, value: Value, release: bool = False) -> None:
        """An exchange: what was there goes into the register, and the value may depend on it."""
        self._add("swap", register, address, None, value, release)

    def compare_swap(
        self, register: str, address: Address, expected: Value, value: Value, release: bool = False
    ) -> None:
        """What was there goes into the register; where it is as expected, the value takes its place."""
        self._add("swap", register, address, expected, value, release)

    def fence(self) -> None:
        self._add("fence")

    def heavy(self, other: str) -> None:
        """Our barrier, and one on the processor of the other."""
        self._add("fence")
        self._add("heavy", other)

    def wait(self, address: Address, expected: Value) -> None:
        """Sleeps on a futex word while it is as expected; a death of anybody wakes, too."""
        self._add("wait", address, expected)

    def wake(self, address: Address) -> None:
        self._add("wake", address)

    def wake_one(self, address: Address) -> None:
        """Of those who sleep any one."""
        self._add("wake_one", address)

    def do(self, change: Callable[[Registers], None]) -> None:
        self._add("do", change)

    def check(self, condition: Callable[[Registers], bool], text: str) -> None:
        self._add("check", condition, text)

    def label(self, name: str) -> None:
        self.labels[name] = len(self.steps)

    def goto(self, label: str, when: Callable[[Registers], bool] = lambda r: True) -> None:
        self._add("goto", label, when)


class Model:
    def __init__(self, processes: list[Process], memory: dict[str, int], sequential: bool = False) -> None:
        """`sequential`: stores reach memory at once, for configurations that are too large otherwise."""
        self.processes = processes
        self.sequential = sequential
        self.names = [process.name for process in processes]
        self.memory = dict(memory)
        for process in processes:
            self.memory[f"dead:{process.name}"] = 0
        self.addresses = {address: i for i, address in enumerate(self.memory)}
        self.registers = [list(process.registers) for process in processes]
        self.moves: dict[object, tuple[int, tuple[int, ...], tuple[int, ...], Buffer] | None] = {}
        self.arrives = [f"{process.name}'s store arrives" for process in processes]
        self.dies = [f"{process.name} dies" for process in processes]
        self.texts = [[_say(process.name, *step) for step in process.steps] for process in processes]
        sleeps = ("wait", "wake", "wake_one")
        words = {step[1][0] for process in processes for step in process.steps if step[0] in sleeps}
        assert len(words) <= 1, "a wake wakes all: one futex word per model"

    # -- One step of one process

    def _settle(self, p: int, pc: int, r: Registers) -> int:
        """Runs what nobody else can see, up to the next access."""
        process = self.processes[p]
        while pc < len(process.steps):
            kind, arguments = process.steps[pc]
            if kind == "do":
                arguments[0](r)  # type: ignore[operator]
            elif kind == "check":
                if not arguments[0](r):  # type: ignore[operator]
                    raise Wrong(f"{process.name}: {arguments[1]} {r}")
            elif kind == "goto":
                if arguments[1](r):  # type: ignore[operator]
                    pc = process.labels[arguments[0]]  # type: ignore[index]
                    continue
            else:
                break
            pc += 1
        return pc

    def _at(self, address: object, r: Registers) -> int:
        return self.addresses[address(r) if callable(address) else address]  # type: ignore[index]

    def start(self) -> State:
        pcs, registers = [], []
        for p, process in enumerate(self.processes):
            r = dict(process.registers)
            pcs.append(self._settle(p, 0, r))
            registers.append(tuple(r.values()))
        empty: Buffer = ()
        return tuple(pcs), tuple(registers), tuple(self.memory.values()), (empty,) * len(pcs)

    def successors(self, state: State) -> list[tuple[str, State]]:
        pcs, registers, memory, buffers = state
        out: list[tuple[str, State]] = []
        for p, process in enumerate(self.processes):
            pc, buffer = pcs[p], buffers[p]
            for i in _ready(buffer):
                left = _put(buffers, p, buffer[:i] + buffer[i + 1 :])
                arrived = _put(memory, buffer[i][0], buffer[i][1])
                out.append((self.arrives[p], (pcs, registers, arrived, left)))
            if pc == DEAD and not buffer:
                at = self.addresses[f"dead:{process.name}"]
                told = _put(_woken(pcs), p, GONE), registers, _put(memory, at, 1), buffers
                out.append((f"{process.name}'s death is told", told))
            if pc < 0:
                continue
            if process.mortal and pc % BEHIND_WAIT < len(process.steps):
                out.append((self.dies[p], (_put(pcs, p, DEAD), registers, memory, buffers)))
            if pc >= len(process.steps):
                continue
            kind, arguments = process.steps[pc]
            if kind == "heavy" and buffers[self.names.index(arguments[0])]:  # type: ignore[arg-type]
                continue
            where = p, pc, registers[p], memory, buffer
            if where not in self.moves:  # most states differ in what other processes know
                self.moves[where] = self._step(*where)
            move = self.moves[where]
            if move is None:
                continue
            what = self.texts[p][pc]
            asleep = [q for q, other in enumerate(pcs) if other >= BEHIND_WAIT] if kind == "wake_one" else []
            moved = (
                _put(_woken(pcs) if kind == "wake" else pcs, p, move[0]),  # a wake too many is allowed
                _put(registers, p, move[1]),
                move[2],
                _put(buffers, p, move[3]),
            )
            for q in asleep:
                woken = _put(moved[0], q, pcs[q] - BEHIND_WAIT)
                out.append((f"{what}, {self.names[q]}", (woken, *moved[1:])))
            if not asleep:
                out.append((what, moved))
        return out

    def _step(
        self, p: int, pc: int, registers: tuple[int, ...], memory: tuple[int, ...], buffer: Buffer
    ) -> tuple[int, tuple[int, ...], tuple[int, ...], Buffer] | None:
        """What becomes of what a process sees. None: it has to wait."""
        kind, arguments = self.processes[p].steps[pc]
        r = dict(zip(self.registers[p], registers, strict=True))
        behind = 0
        if kind == "store":
            if len(buffer) == BUFFER_MAX:
                return None
            address, value, release = arguments
            entry = (self._at(address, r), value(r) if callable(value) else value, release)
            if self.sequential:
                memory = _put(memory, entry[0], entry[1])
            else:
                buffer = (*buffer, entry)  # type: ignore[assignment]
        elif kind == "load":
            register, address = arguments
            r[register] = _see(self._at(address, r), memory, buffer)  # type: ignore[index]
        elif kind == "swap":
            register, address, expected, value, release = arguments
            at = self._at(address, r)
            if (release and buffer) or any(there == at for there, _, _ in buffer):
                return None  # it acts on memory itself; as a release, after all stores made before it
            there = memory[at]
            swaps = expected is None or there == (expected(r) if callable(expected) else expected)
            r[register] = there  # type: ignore[index]
            if swaps:
                memory = _put(memory, at, value(r) if callable(value) else value)
        elif kind == "until":
            if not any(holds(_see(self._at(address, r), memory, buffer), r) for address, holds in arguments):  # type: ignore[misc]
                return None
        elif kind in ("fence", "wait", "wake", "wake_one"):
            if buffer:
                return None  # the latter three are system calls
            if kind == "wait":
                address, expected = arguments
                holds = memory[self._at(address, r)] == (expected(r) if callable(expected) else expected)
                # futex_waitv: it sleeps on the death words, too
                if holds and not any(memory[self.addresses[f"dead:{name}"]] for name in self.names):
                    behind = BEHIND_WAIT
        next_pc = self._settle(p, pc + 1, r) + behind
        return next_pc, tuple(r.values()), memory, buffer

    # -- All of them

    def run(self, states_max: int = 2_000_000) -> int:
        """Visits every state; returns how many there are. Raises Wrong with a shortest way to a wrong one."""
        start = self.start()
        came: dict[State, tuple[State, str] | None] = {start: None}
        waiting = [start]
        while waiting:
            nearest: list[State] = []
            for state in waiting:
                try:
                    successors = self.successors(state)
                except Wrong as wrong:
                    raise Wrong(f"{wrong}\n{self._way(came, state)}") from None
                if all(what.endswith(" dies") for what, _ in successors):  # nothing goes on by itself
                    self._must_be_over(state, came)
                for what, next_state in successors:
                    if next_state not in came:
                        came[next_state] = (state, what)
                        nearest.append(next_state)
            waiting = nearest
            assert len(came) < states_max, "the configuration is too large"
        return len(came)

    def _must_be_over(self, state: State, came: dict[State, tuple[State, str] | None]) -> None:
        for p, process in enumerate(self.processes):
            if not process.daemon and 0 <= state[0][p] != len(process.steps):
                raise Wrong(f"{process.name} waits for ever\n{self._way(came, state)}")

    def _way(self, came: dict[State, tuple[State, str] | None], state: State) -> str:
        lines: list[str] = []
        while (before := came[state]) is not None:
            state, what = before
            lines.append(what)
        return "\n".join(f"  {line}" for line in reversed(lines))


def _put(values: tuple, at: int, value: object) -> tuple:  # type: ignore[type-arg]
    return (*values[:at], value, *values[at + 1 :])


def _say(name: str, kind: str, arguments: tuple[object, ...]) -> str:
    return f"{name}: {kind} " + " ".join(str(a) for a in arguments if not callable(a))


def _woken(pcs: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(x - BEHIND_WAIT if x >= BEHIND_WAIT else x for x in pcs)


def _see(at: int, memory: tuple[int, ...], buffer: Buffer) -> int:
    """The own buffer first, then memory."""
    own = [value for address, value, _ in buffer if address == at]
    return own[-1] if own else memory[at]


def _ready(buffer: Buffer) -> list[int]:
    """Which stores may reach memory next."""
    if len(buffer) < 2:
        return list(range(len(buffer)))
    ready, seen = [], set()
    for i, (address, _, release) in enumerate(buffer):
        if address not in seen and not (release and i > 0):
            ready.append(i)
        seen.add(address)
    return ready
