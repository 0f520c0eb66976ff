"""What is measured while a soak runs: memory of processes, and what answers."""

import threading
import time
from collections import defaultdict
from pathlib import Path
from typing import Any, Final

import psycopg

from tests.soak.load import Tally
from tests.soak.servers import listens
from tests.soak.world import World

_EVERY_S: Final = 1.0
_WARM_S: Final = 30.0
_MIB: Final = 1 << 20


class Watch:
    """Looks at everything once a second."""

    def __init__(self, world: World, tally: Tally) -> None:
        self._world = world
        self._tally = tally
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look)
        # The most that PostgreSQL had, by what they call themselves.
        self.connections: dict[str, int] = {}
        # By process: who it is, when it was first seen, its memory then, at most, and now.
        self._memory: dict[tuple[str, int], dict[str, float]] = {}

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()

    def _look(self) -> None:
        while not self._ended.wait(_EVERY_S):
            for name, server in (("PostgreSQL", self._world.database), ("S3", self._world.bucket)):
                if listens(server.address):
                    self._tally.succeed(name)
            self._count_connections()
            for machine in self._world.machines:
                for service in machine.services:
                    if machine.is_ready(service.role):
                        self._tally.succeed(f"{service.role} of {machine.name}")
                    if service.process and service.process.poll() is None:
                        self._note(f"{service.role} of {machine.name}", service.process.pid)

    def _count_connections(self) -> None:
        try:
            with psycopg.connect(self._world.database.url, connect_timeout=2) as connection:
                rows = connection.execute(
                    "SELECT coalesce(nullif(application_name, ''), 'state'), count(*)"
                    " FROM pg_stat_activity WHERE backend_type = 'client backend' GROUP BY 1"
                ).fetchall()
        except psycopg.Error:
            return
        found = {**dict(rows), "all": sum(count for _, count in rows)}
        for name, count in found.items():
            self.connections[name] = max(self.connections.get(name, 0), count)

    def _note(self, name: str, pid: int) -> None:
        now, used = time.monotonic(), _resident(pid)
        if not used:
            return
        found = self._memory.setdefault((name, pid), {"since": now, "most": used})
        # What a process has when it has done all kinds of work for a while is its beginning.
        if "first" not in found and now - found["since"] >= _WARM_S:
            found["first"], found["first_at"] = used, now
        found["most"] = max(found["most"], used)
        found |= {"last": used, "last_at": now}

    def memory(self) -> dict[str, Any]:
        """By process name: the most that any had, and the growth of the one that lived longest."""
        by_name: dict[str, list[dict[str, float]]] = defaultdict(list)
        for (name, _), found in self._memory.items():
            by_name[name].append(found)
        return {name: _summary(lives) for name, lives in sorted(by_name.items())}


def _summary(lives: list[dict[str, float]]) -> dict[str, Any]:
    grown = [each for each in lives if each.get("first_at", 0) < each.get("last_at", 0)]
    found: dict[str, Any] = {
        "lives": len(lives),
        "most_mib": round(max(each["most"] for each in lives) / _MIB),
    }
    if any("first" in each for each in grown):
        longest = max(
            (each for each in grown if "first" in each), key=lambda e: e["last_at"] - e["first_at"]
        )
        found |= {
            "longest_life_s": round(longest["last_at"] - longest["since"]),
            "first_mib": round(longest["first"] / _MIB),
            "last_mib": round(longest["last"] / _MIB),
        }
    return found


def _resident(pid: int) -> int:
    """Bytes of memory of a process and of those that it started."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return 0
    own = [line.split()[1] for line in status.splitlines() if line.startswith("VmRSS:")]
    return sum(int(each) * 1024 for each in own) + sum(_resident(int(each)) for each in children)
