"""Processes that work a drop folder and die on the way, started quickly and safely.

Run as a program, this is the process that forks them. It has imported what is pure Python and has
one thread, so a fork of it is as good as a fresh process; DuckDB, Polars and Arrow start threads
when they are imported, and are left to the forks. The first fork that ends says what else it
imported, so that the next ones need not.
"""

import hashlib
import importlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

_THREADLESS = (
    "numpy",
    "zstandard",
    "sqlalchemy.dialects.sqlite",
    "alembic.command",
    "pydantic_settings",
    "meterlake.model.resources",
    "meterlake.model.measurements.mapping",
    "meterlake.model.values.documents",
)
_THREADED = ("duckdb", "_duckdb", "polars", "_polars_runtime_32", "pyarrow")


class Zygote:
    """The parent of all processes that crash."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process

    def run(
        self,
        homes: list[Path],
        org_id: str,
        crash_at: int | None = None,
        work: str | None = None,
        **settings: str,
    ) -> dict[str, Any]:
        """Work the drop folders of some homes in a new process, or do something else there.

        Args:
            homes: The homes.
            org_id: The organization, the same in all of them.
            crash_at: Kill the process at the n-th step that it marks, counted from 0.
            work: What else to do: `module:function` that takes a home and gives what to add to
                its state.
            settings: Of the homes, where they are others than the defaults.

        Returns:
            `died`, the names of the steps that were `reached`, and the `states` of the homes.
        """
        order = {"homes": list(map(str, homes)), "org": org_id, "crash_at": crash_at, "work": work}
        order["settings"] = settings
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(json.dumps(order).encode() + b"\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        assert answer["died"] == (answer["signal"] == signal.SIGKILL)
        assert answer["died"] or answer["status"] == 0, answer
        return answer


@contextmanager
def zygote() -> Iterator[Zygote]:
    """Start the parent of all processes that crash."""
    env = os.environ | {
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        "OPENBLAS_NUM_THREADS": "1",  # numpy is threadless then
    }
    command = [sys.executable, "-W", "ignore", str(Path(__file__))]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env
    ) as process:
        yield Zygote(process)
        assert process.stdin
        process.stdin.close()
        process.wait(180)


def _serve() -> None:
    for name in _THREADLESS:
        importlib.import_module(name)
    learned = False
    for line in sys.stdin.buffer:
        threads = len(list(Path("/proc/self/task").iterdir()))
        assert threads == 1, "a process with threads must not fork"
        order = json.loads(line)
        trace = Path(order["homes"][0]).with_suffix(".trace")
        trace.write_text("")
        pid = os.fork()
        if pid == 0:
            _child(order, trace)
        _, status = os.waitpid(pid, 0)
        lines = trace.read_text().splitlines()
        imported = [line[1:] for line in lines if line.startswith("+")]
        answer = {
            "died": os.WIFSIGNALED(status),
            "signal": os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0,
            "status": os.WEXITSTATUS(status) if os.WIFEXITED(status) else -1,
            "reached": [line for line in lines if not line.startswith(("=", "+"))],
            "states": [json.loads(line[1:]) for line in lines if line.startswith("=")],
        }
        sys.stdout.buffer.write(json.dumps(answer).encode() + b"\n")
        sys.stdout.buffer.flush()
        if imported and not learned:
            _import_ahead(imported[0].split())
            learned = True


def _import_ahead(names: list[str]) -> None:
    """Import what a fork imported, except what starts threads and what needs that."""
    sys.modules.update(dict.fromkeys(_THREADED))
    try:
        for name in names:
            with suppress(ImportError):
                importlib.import_module(name)
    finally:
        for name in _THREADED:
            del sys.modules[name]


def _child(order: dict[str, Any], trace: Path) -> None:
    from meterlake.model.values import failpoint
    from tests.homes import open_home
    from tests.killing import die_at_nth

    status = 1
    handle = os.open(trace, os.O_WRONLY | os.O_APPEND)
    dying = die_at_nth(order["crash_at"])

    def hook(name: str) -> None:
        os.write(handle, f"{name}\n".encode())
        dying(name)

    failpoint.hook = hook
    try:
        for path in order["homes"]:
            with open_home(Path(path), order["org"], **order["settings"]) as home:
                more = _worked(home, order["work"])
                os.write(handle, b"=" + json.dumps(state_of(home) | more).encode() + b"\n")
        names = (name for name in sys.modules if name.partition(".")[0] not in _THREADED)
        os.write(handle, f"+{' '.join(names)}\n".encode())
        status = 0
    except BaseException:  # noqa: BLE001 - the process ends here, whatever it is
        import traceback

        traceback.print_exc()
    finally:
        os._exit(status)


def _worked(home: Any, work: str | None) -> dict[str, Any]:
    if work is None:
        home.work()
        return {}
    module, _, name = work.partition(":")
    found: dict[str, Any] = getattr(importlib.import_module(module), name)(home)
    return found


def state_of(home: Any) -> dict[str, Any]:
    """Everything that must be the same after a crash as without one."""
    home.check_rows()
    folder = home.folder
    return {
        "leftover": home.staged(),
        "measurements": home.measurements(),
        "uids": home.uids(),
        "rejected": home.query(
            "SELECT name, attempt, row, part, reason, uid, field, detail, original"
            " FROM lake.rejected ORDER BY ALL"
        ),
        "ledger": home.ledger(),
        "accounts": sorted(home.account_codes().items()),
        "inbox": sorted(path.name for path in folder.inbox.iterdir()),
        "claimed": sorted(path.name for path in folder.claimed.iterdir()),
        "done": _archived(folder.done),
        "failed": _archived(folder.failed),
        "events": _told(home),
    }


def _told(home: Any) -> list[Any]:
    """Every event of rows that went wrong, with the content of its file."""
    from meterlake.pipeline.events.events import EventFilters, list_events
    from meterlake.stores.state.core.pages import Page

    filters = EventFilters(event_type="IngestValidationFailure")
    found = list_events(home.organization, filters, Page(100, None))["data"]
    return [
        [
            event["id"],
            # What names the arrival differs from run to run.
            {name: told[name] for name in ("name", "file", "rejected", "accepted", "reasons")},
            home.stores.objects.get(told["file"]).decode(),
        ]
        for event in found
        for told in [event["m3terEvent"]["eventData"]["newDto"]]
    ]


def _archived(folder: Path) -> list[Any]:
    return sorted(
        [path.name, _content(path)] for claim in folder.iterdir() for path in claim.iterdir()
    )


def _content(path: Path) -> Any:
    if not path.name.endswith(".report.json"):
        return hashlib.sha256(path.read_bytes()).hexdigest()
    report = json.loads(path.read_bytes())
    # What names the arrival, and what only the process that committed could know.
    for name in ("delivery", "receivedAt", "snapshot", "newAccounts"):
        del report[name]
    return json.dumps(report, sort_keys=True)


if __name__ == "__main__":
    _serve()
