"""One job as one flow run, in this process: `python -m flows.run_job KIND PARAMETERS --api URL`.

The worker starts it. Nothing here imports Prefect before its environment is set.
"""

import json
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from cyclopts import App

from flows.kinds import flow_of
from flows.server import client_environment
from meterlake.model.errors import MeterlakeError
from meterlake.stores.files.durable import make_private
from meterlake.stores.processes import end_with_parent
from meterlake.worker.executor import FAILED


def run_job(kind: str, parameters: str, *, api: str) -> int:
    """Run the flow of a kind.

    Args:
        kind: The flow, see `flow_of`.
        parameters: Its parameters as a JSON object.
        api: The URL of the Prefect server's API.

    Returns:
        The exit code: 0 if the flow did what there was to do, also where a file cannot be read;
        4 if the world failed.
    """
    end_with_parent()
    make_private()
    given: Mapping[str, Any] = json.loads(parameters)
    environment = client_environment(Path(given["home"]), api, os.environ)
    os.environ.clear()
    os.environ.update(environment)
    flow = flow_of(kind)
    from flows.outcome import Incomplete  # noqa: PLC0415

    try:
        # A run of which something could not be done is shown as failed; its job says what to do.
        with suppress(Incomplete):
            flow(**given)
    except MeterlakeError:
        return FAILED
    return 0


if __name__ == "__main__":
    app = App(name="python -m flows.run_job", version_flags=(), result_action="return_value")
    app.default(run_job)
    sys.exit(app())
