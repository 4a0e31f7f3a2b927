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
State = tuple[
    tuple[int, ...],
    tuple[tuple[int, ...], ...],
    tuple[int, ...],
    tuple[tuple[tuple[int, int, bool], ...], ...],
]

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
        empty: tuple[tuple[int, int, bool], ...] = ()
        return tuple(pcs), tuple(registers), tuple(self.memory.values()), (empty,) * len(pcs)

    def successors(self, state: State) -> list[tuple[str, State]]:
        pcs, registers, memory, buffers = state
        out: list[tuple[str, State]] = []
        for p, process in enumerate(self.processes):
            arrives = f"{process.name}'s store arrives"
            out += [(arrives, self._arrive(state, p, i)) for i in _ready(buffers[p])]
            pc = pcs[p]
            if pc == DEAD and not buffers[p]:
                at = self.addresses[f"dead:{process.name}"]
                woken = tuple(x - BEHIND_WAIT if x >= BEHIND_WAIT else x for x in pcs)
                out.append(
                    (
                        f"{process.name}'s death is told",
                        (_put(woken, p, GONE), registers, _put(memory, at, 1), buffers),
                    )
                )
            if pc < 0:
                continue
            if process.mortal and pc % BEHIND_WAIT < len(process.steps):
                out.append((f"{process.name} dies", (_put(pcs, p, DEAD), registers, memory, buffers)))
            if pc < len(process.steps):
                what = f"{process.name}: {self._say(p, pc)}"
                moved = self._step(state, p)
                if moved is None:
                    continue
                asleep = [q for q, other in enumerate(pcs) if other >= BEHIND_WAIT]
                if process.steps[pc][0] == "wake_one" and asleep:
                    for q in asleep:
                        woken = _put(moved[0], q, pcs[q] - BEHIND_WAIT)
                        out.append((f"{what}, {self.names[q]}", (woken, *moved[1:])))
                else:
                    out.append((what, moved))
        return out

    def _say(self, p: int, pc: int) -> str:
        kind, arguments = self.processes[p].steps[pc]
        return f"{kind} " + " ".join(str(a) for a in arguments if not callable(a))

    def _arrive(self, state: State, p: int, i: int) -> State:
        pcs, registers, memory, buffers = state
        address, value, _ = buffers[p][i]
        left = buffers[p][:i] + buffers[p][i + 1 :]
        return pcs, registers, _put(memory, address, value), _put(buffers, p, left)

    def _step(self, state: State, p: int) -> State | None:
        pcs, registers, memory, buffers = state
        process, pc = self.processes[p], pcs[p]
        kind, arguments = process.steps[pc]
        r = dict(zip(self.registers[p], registers[p], strict=True))
        next_pc = pc + 1
        if kind == "store":
            if len(buffers[p]) == BUFFER_MAX:
                return None
            address, value, release = arguments
            entry = (self._at(address, r), value(r) if callable(value) else value, release)
            if self.sequential:
                memory = _put(memory, entry[0], entry[1])
            else:
                buffers = _put(buffers, p, (*buffers[p], entry))
        elif kind == "load":
            register, address = arguments
            at = self._at(address, r)
            r[register] = _see(at, memory, buffers[p])  # type: ignore[index]
        elif kind == "swap":
            register, address, expected, value, release = arguments
            at = self._at(address, r)
            if (release and buffers[p]) or any(there == at for there, _, _ in buffers[p]):
                return None  # it acts on memory itself; as a release, after all stores made before it
            there = memory[at]
            swaps = expected is None or there == (expected(r) if callable(expected) else expected)
            r[register] = there  # type: ignore[index]
            if swaps:
                memory = _put(memory, at, value(r) if callable(value) else value)  # type: ignore[arg-type]
        elif kind == "until":
            if not any(
                holds(_see(self._at(address, r), memory, buffers[p]), r) for address, holds in arguments
            ):  # type: ignore[misc]
                return None
        elif kind == "fence":
            if buffers[p]:
                return None
        elif kind == "heavy":
            if buffers[self.names.index(arguments[0])]:  # type: ignore[arg-type]
                return None
        elif kind == "wait":
            address, expected = arguments
            if buffers[p]:
                return None  # a system call
            if memory[self._at(address, r)] == (expected(r) if callable(expected) else expected):
                if any(memory[self.addresses[f"dead:{name}"]] for name in self.names):
                    pass  # futex_waitv: a death word is not as expected
                else:
                    next_pc = self._settle(p, next_pc, r) + BEHIND_WAIT
                    return _put(pcs, p, next_pc), _put(registers, p, tuple(r.values())), memory, buffers
        elif kind in ("wake", "wake_one"):
            if buffers[p]:
                return None
            if kind == "wake":  # a wake too many is allowed
                pcs = tuple(x - BEHIND_WAIT if x >= BEHIND_WAIT else x for x in pcs)
        next_pc = self._settle(p, next_pc, r)
        return _put(pcs, p, next_pc), _put(registers, p, tuple(r.values())), memory, buffers

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


def _see(at: int, memory: tuple[int, ...], buffer: tuple[tuple[int, int, bool], ...]) -> int:
    """The own buffer first, then memory."""
    own = [value for address, value, _ in buffer if address == at]
    return own[-1] if own else memory[at]


def _ready(buffer: tuple[tuple[int, int, bool], ...]) -> list[int]:
    """Which stores may reach memory next."""
    ready, seen = [], set()
    for i, (address, _, release) in enumerate(buffer):
        if address not in seen and not (release and i > 0):
            ready.append(i)
        seen.add(address)
    return ready
