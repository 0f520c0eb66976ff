"""The sample organization's month through the flows, with a Prefect server of its own.

`meterlake demo --prefect` starts this as a child: `python -m flows.demo --home HOME`. The server
and the flows are children of this process; it does not import Prefect itself.
"""

import os
import shlex
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from flows.server import (
    server_environment,
    server_url,
    serving,
    wait_until_it_answers,
)
from meterlake.cli.shell.next_steps import CommandPlace
from meterlake.model.errors import MeterlakeError
from meterlake.pipeline.home.sample import create_sample, next_steps
from meterlake.settings import Settings
from meterlake.stores.prefect_access import announce
from meterlake.stores.processes import Child, child, free_port, wait_for

Switch = Annotated[bool, Parameter(negative="")]


def demo(*, home: Path, keep: Switch = False, kept: Switch = False) -> int:
    """Run the main job on the sample data through the flows, in a new home.

    Args:
        home: The folder to play in.
        keep: Keep serving Prefect's pages afterwards, until Ctrl-C.
        kept: Whether the home is there afterwards.

    Returns:
        The exit code.
    """
    begun = time.monotonic()
    port = free_port()
    with serving(home, port) as server:
        code = _played(home.absolute(), port, server)
        _say(f"\n{'Stopped' if code else 'Done'} after {time.monotonic() - begun:.1f} s.")
        if not code:
            _say_next_steps(home.absolute(), kept=kept)
        if keep:
            _say(f"Look at the runs: {server_url(port)}/runs (Ctrl-C stops the server)")
            with suppress(KeyboardInterrupt):
                wait_for(server)
    again = shlex.join([sys.executable, "-m", "flows.server", "--home", str(home.absolute())])
    if kept:
        _say(f"As long as the home is kept, this shows the runs again:\n  {again}")
    return code


def _say_next_steps(home: Path, *, kept: bool) -> None:
    found_by_itself = Settings().home.absolute() == home
    place = CommandPlace(None if found_by_itself or not kept else str(home))
    _say("What to do next:")
    for what, words in next_steps(kept=kept).items():
        _say(f"{what}\n  {place.command(words)}")


def _played(home: Path, port: int, server: Child) -> int:
    _say("Starting a Prefect server on this machine, in the home folder ...")
    org = create_sample(Settings(home=home))
    wait_until_it_answers(server, home, port)
    _say(f"While this runs, look at {server_url(port)}/runs")
    _say(f"Your browser is signed in there by {announce(home, server_url(port)).as_uri()}")
    command = [sys.executable, "-m", "flows.sample_run", "--home", str(home), "--org", org]
    environment = server_environment(home, port, os.environ)
    # What happened is printed step by step; the runs' logs are on the server.
    environment["PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL"] = "ERROR"
    with child(command, environment) as run:
        return wait_for(run)


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main() -> int:
    """The command; whatever ends it, its children end, too."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    app = App(name="python -m flows.demo", version_flags=(), result_action="return_value")
    app.default(demo)
    try:
        return int(app() or 0)
    except MeterlakeError as error:
        sys.stderr.write(f"demo: {error}\n")
        return 1
    except KeyboardInterrupt:
        return 128 + signal.SIGINT


if __name__ == "__main__":
    sys.exit(main())
