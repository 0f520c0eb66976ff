"""What goes wrong in a soak, and when: decided by a seed."""

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, Final

from tests.soak.machines import DASK_WORKER, Machine
from tests.soak.world import World

KILLED: Final = ("postgres", "s3")
REACHED: Final = (*KILLED, "prefect")
_LEAST_S: Final = 2.0
_MOST_S: Final = 12.0
# Longer than the lease of a job, which is a minute: who comes back finds it gone.
_FROZEN_S: Final = (65.0, 80.0)

KINDS: Final = (
    "kill API",
    "kill worker",
    "kill flow run",
    "kill command",
    "kill Dask worker",
    "kill PostgreSQL",
    "kill S3",
    "cut network",
    "silent network",
    "slow network",
    "pull cable",
    "vanish machine",
    "freeze machine",
)


@dataclass(frozen=True, slots=True)
class Fault:
    """One event: when after the beginning, what, to whom, for how long."""

    at_s: float
    kind: str
    machine: str
    server: str
    seconds: float


def schedule(seed: int, seconds: float, machines: list[str], absent: set[str]) -> list[Fault]:
    """The faults of a soak: every kind once in each round, in any order, at random moments."""
    draw = random.Random(f"{seed} faults")
    kinds = [kind for kind in KINDS if kind not in absent]
    found: list[Fault] = []
    at, deck = draw.uniform(3, 6), list[str]()
    gap = min(20.0, seconds / len(kinds) / 2)
    while True:
        if not deck:
            deck = draw.sample(kinds, len(kinds))
        kind = deck.pop()
        frozen = kind == "freeze machine"
        # In a short soak every kind has its turn, and nobody is frozen for longer than a lease.
        longest = _FROZEN_S if frozen and seconds > 300 else (_LEAST_S, _MOST_S)
        length = min(draw.uniform(*longest), max(_LEAST_S, gap * 5 if frozen else gap))
        if at + length > seconds:
            return found
        machine, server = draw.choice(machines), draw.choice(REACHED)
        found.append(Fault(round(at, 2), kind, machine, server, round(length, 2)))
        # Most are over before the next one begins; some are not.
        at += draw.uniform(0.3, 1.7) * gap


def absent_kinds(world: World) -> dict[str, str]:
    """Which kinds there cannot be here, and why."""
    found = {}
    if "network namespaces" in world.absent:
        found["pull cable"] = world.absent["network namespaces"]
    if "Dask" in world.absent:
        found["kill Dask worker"] = world.absent["Dask"]
    return found


class Chaos:
    """Carries a schedule out, in threads, and keeps processes alive."""

    def __init__(self, world: World, faults: list[Fault]) -> None:
        self.world = world
        self.log: list[dict[str, Any]] = []
        self.counts: Counter[str] = Counter()
        self.troubles: list[str] = []
        self._faults = faults
        self._ended = threading.Event()
        self._locks = {name: threading.Lock() for name in KILLED}
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        """Begin to look after the processes."""
        self._run(self._supervise)

    def begin(self) -> None:
        """Begin with the faults."""
        self._run(self._carry_out)

    def stop(self) -> None:
        """Wait until what has begun is over, and leave the processes alone from then on."""
        self._ended.set()
        for thread in self._threads:
            thread.join()

    def _run(self, work: Callable[[], None]) -> None:
        def run() -> None:
            try:
                work()
            except Exception as error:
                self.troubles.append(f"the soak itself failed: {error!r}")
                raise

        thread = threading.Thread(target=run)
        thread.start()
        self._threads.append(thread)

    def _supervise(self) -> None:
        while not self._ended.wait(0.2):
            for machine in self.world.machines:
                machine.look()

    def _carry_out(self) -> None:
        began, running = time.monotonic(), list[threading.Thread]()
        for fault in self._faults:
            if self._ended.wait(max(0.0, began + fault.at_s - time.monotonic())):
                break
            thread = threading.Thread(target=self._cause, args=[fault])
            thread.start()
            running.append(thread)
        for thread in running:
            thread.join()

    def _cause(self, fault: Fault) -> None:
        machine = next(each for each in self.world.machines if each.name == fault.machine)
        begun = time.monotonic()
        steps = _STEPS[fault.kind](self, fault, machine)
        done = next(steps)
        time.sleep(max(0.0, fault.seconds - (time.monotonic() - begun)))
        next(steps, None)
        if done:
            self.counts[fault.kind] += 1
            self.log.append(asdict(fault))

    def _kill_process(self, role: str, fault: Fault, machine: Machine) -> Iterator[bool]:
        machine.kill(machine.service(role), min(fault.seconds, 5))
        yield True

    def _kill_any(
        self, kill: Callable[[Machine], int], fault: Fault, machine: Machine
    ) -> Iterator[bool]:
        # None may run at this moment: the next one is waited for, for a while.
        until = time.monotonic() + fault.seconds + _MOST_S
        while not (done := sum(kill(each) for each in self._others(machine))):
            if time.monotonic() > until:
                break
            time.sleep(0.3)
        yield bool(done)

    def _others(self, machine: Machine) -> list[Machine]:
        return [machine, *(each for each in self.world.machines if each is not machine)]

    def _kill_server(self, name: str, fault: Fault) -> Iterator[bool]:
        server = self.world.database if name == "postgres" else self.world.bucket
        with self._locks[name]:
            server.kill()
            time.sleep(min(fault.seconds, 8))
            server.start()
        yield True

    def _set_route(self, mode: str, fault: Fault) -> Iterator[bool]:
        route = self.world.routes[fault.machine, fault.server]
        self.world.relay.set(route, mode)
        yield True
        self.world.relay.set(route, "open")

    def _pull_cable(self, _: Fault, machine: Machine) -> Iterator[bool]:
        machine.network.set_cable(plugged=False)
        yield True
        machine.network.set_cable(plugged=True)

    def _vanish(self, fault: Fault, machine: Machine) -> Iterator[bool]:
        machine.vanish(fault.seconds)
        yield True
        machine.network.set_cable(plugged=True)

    def _freeze(self, _: Fault, machine: Machine) -> Iterator[bool]:
        machine.freeze(frozen=True)
        yield True
        machine.freeze(frozen=False)


_STEPS: Final[dict[str, Callable[[Chaos, Fault, Machine], Iterator[bool]]]] = {
    "kill API": lambda chaos, fault, machine: chaos._kill_process("api", fault, machine),
    "kill worker": lambda chaos, fault, machine: chaos._kill_process("worker", fault, machine),
    "kill flow run": lambda chaos, fault, machine: chaos._kill_any(
        Machine.kill_flow_runs, fault, machine
    ),
    "kill command": lambda chaos, fault, machine: chaos._kill_any(
        Machine.kill_commands, fault, machine
    ),
    "kill Dask worker": lambda chaos, fault, machine: chaos._kill_process(
        DASK_WORKER, fault, machine
    ),
    "kill PostgreSQL": lambda chaos, fault, _: chaos._kill_server("postgres", fault),
    "kill S3": lambda chaos, fault, _: chaos._kill_server("s3", fault),
    "cut network": lambda chaos, fault, _: chaos._set_route("cut", fault),
    "silent network": lambda chaos, fault, _: chaos._set_route("silent", fault),
    "slow network": lambda chaos, fault, _: chaos._set_route("slow", fault),
    "pull cable": Chaos._pull_cable,
    "vanish machine": Chaos._vanish,
    "freeze machine": Chaos._freeze,
}
