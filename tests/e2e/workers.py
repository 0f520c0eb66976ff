"""Other processes that use a home: started as a program, they say in JSON what happened."""

import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

NOBODY = 65534


def start(verb: str, home: Path, org_id: str, *arguments: object) -> subprocess.Popen[bytes]:
    """Start a process."""
    command = [sys.executable, "-W", "ignore", str(Path(__file__)), verb, str(home), org_id]
    env = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return subprocess.Popen([*command, *map(str, arguments)], stdout=subprocess.PIPE, env=env)


def result(process: subprocess.Popen[bytes]) -> Any:
    """What a process says at its end."""
    out, _ = process.communicate(timeout=120)
    assert process.returncode == 0, out
    return json.loads(out)


def _ingest(home: Any, start_at: str, *paths: str) -> Any:
    """Ingest files where they lie, from a moment on."""
    from uuid import uuid4

    from meterlake.model.measurements.receipt import Delivery
    from meterlake.pipeline.ingest.run import ingest_file

    time.sleep(max(0.0, float(start_at) - time.time()))
    found = []
    for path in map(Path, paths):
        delivery = Delivery(str(uuid4()), path.name, home.clock())
        receipt = ingest_file(home.organization, path, delivery)
        found.append([receipt.received, receipt.accepted, receipt.repeats, receipt.rejected])
    return found


def _work(home: Any, *limits: str) -> Any:
    """Work the drop folder, with files of at most so many bytes; or as nobody, who may not write."""
    from meterlake.model.errors import MeterlakeError

    home.organization.lake.open_to_write()
    if limits == ("nobody",):
        _import_everything()
        os.setuid(NOBODY)
    elif limits:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(limits[0]), resource.RLIM_INFINITY))
    try:
        receipts = home.work()
    except MeterlakeError as error:
        return type(error).__name__, str(error)
    return "done", [receipt.accepted for receipt in receipts]


def _import_everything() -> None:
    """Use all modules once: nobody may not read where they are installed."""
    from tests.homes import HEADER, a_home, csv_row

    with tempfile.TemporaryDirectory() as folder, a_home(Path(folder)) as home:
        home.drop("a.csv", HEADER + csv_row("u1") + csv_row("u1", 2) + csv_row("u2", "x"))
        home.work()


def _read(home: Any, seconds: str) -> Any:
    """Count again and again what is stored: in the table, in the index, in the books."""
    end, seen = time.time() + float(seconds), set()
    while time.time() < end:
        with home.organization.lake.reader() as connection:
            connection.execute("BEGIN")
            books = connection.execute(
                "SELECT coalesce(sum(accepted), 0) FROM lake.source"
            ).fetchall()
            index = connection.execute("SELECT count(*) FROM lake.uid_index").fetchall()
            connection.execute("COMMIT")
        seen.add((int(books[0][0]), int(index[0][0])))
    return sorted(seen)


VERBS = {"ingest": _ingest, "work": _work, "read": _read}


def main() -> None:
    """Do what the arguments say."""
    from tests.homes import open_home

    verb, path, org_id, *arguments = sys.argv[1:]
    with open_home(Path(path), org_id) as home:
        answer = VERBS[verb](home, *arguments)
        sys.stdout.write(json.dumps(answer))
        sys.stdout.flush()
        if arguments == ["nobody"]:
            os._exit(0)  # Closing would write.


if __name__ == "__main__":
    main()
