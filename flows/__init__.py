"""Prefect flows around the verbs of `meterlake.pipeline`: schedules, retries, fan-out, artifacts.

Importing this package sets what Prefect needs to be quiet and to work offline, so it has to be
imported before Prefect, which reads its settings when it is imported.
"""

import logging
import os
import sys
import tomllib
from pathlib import Path
from typing import Final

from flows.incomplete import Incomplete
from meterlake.model.errors import MeterlakeError
from meterlake.model.values.log_lines import redact_logs
from meterlake.stores.prefect_access import (
    CLIENT_VARIABLE,
    SERVER_VARIABLE,
    new_password,
    password_for,
)
from meterlake.stores.state.jobs.flow_run import ask_for_flow_runs

# How Prefect calls what was raised.
_BROKE: Final = "encountered an exception"
ENVIRONMENT: Final = {
    "DO_NOT_TRACK": "1",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    # A temporary server takes 8 to 17 s on two cores; Prefect gives up after 20.
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "120",
    "PREFECT_LOGGING_TO_API_WHEN_MISSING_FLOW": "ignore",
    # The member `()` of a formatter: its class.
    "PREFECT_LOGGING_FORMATTERS_STANDARD_": "flows.log_lines.FlowLogLine",
    # Of servers that Prefect starts for a run: no page of another origin may use them.
    "PREFECT_SERVER_CORS_ALLOWED_ORIGINS": "",
    "PREFECT_SERVER_CSRF_PROTECTION_ENABLED": "true",
}


def _is_no_mistake_of_ours(record: logging.LogRecord) -> bool:
    """Whether a record tells what somebody else has to mend, or the world."""
    if isinstance(sys.exception(), MeterlakeError | Incomplete):
        return True
    ended = str(record.msg).startswith("Finished in state")
    return ended and _BROKE not in record.getMessage()


def _tell_in_one_line(record: logging.LogRecord) -> bool:
    """Tell a failure of the world, or a refusal, in one line: it says what there is to do.

    Prefect tells the end of a task that failed twice; the second record has all of it.
    """
    if record.exc_info and record.exc_info[0] is None:
        return False
    if record.levelno == logging.ERROR and _is_no_mistake_of_ours(record):
        record.exc_info = record.exc_text = None
        record.levelno, record.levelname = logging.WARNING, "WARNING"
    return True


# Before Prefect makes its first record: its logs go into its database.
redact_logs()
for _name in ("prefect.flow_runs", "prefect.task_runs"):
    logging.getLogger(_name).addFilter(_tell_in_one_line)
for _name, _value in ENVIRONMENT.items():
    os.environ.setdefault(_name, _value)


def _flow_run() -> str | None:
    """The flow run, or that of the task run, whose thread this is."""
    from prefect.runtime import flow_run  # noqa: PLC0415 - it reads its settings when it is imported

    id_ = flow_run.id
    return None if id_ is None else str(id_)


ask_for_flow_runs(_flow_run)


def _sign_in() -> None:
    """Let a flow that is run by hand use the server that `meterlake serve` runs for the same home."""
    api, before = os.environ.get("PREFECT_API_URL"), sys.argv[:-1]
    if not api or CLIENT_VARIABLE in os.environ:
        return
    given = sys.argv[before.index("--home") + 1] if "--home" in before else None
    home = given or os.environ.get("METERLAKE_HOME") or "meterlake-home"
    password = password_for(Path(home), api)
    if password is not None:
        os.environ[CLIENT_VARIABLE] = password


def _knows_server() -> bool:
    """Whether Prefect's own settings name a server: a profile, or files of the folder."""
    if "PREFECT_API_URL" in os.environ:
        return True
    folder = Path(os.environ.get("PREFECT_HOME") or Path.home() / ".prefect")
    profiles = Path(os.environ.get("PREFECT_PROFILES_PATH") or folder / "profiles.toml")
    try:
        known = tomllib.loads(profiles.read_text("utf-8")) if profiles.is_file() else {}
        active = os.environ.get("PREFECT_PROFILE") or known.get("active")
        if "PREFECT_API_URL" in known.get("profiles", {}).get(active, {}):
            return True
        here = [Path(each) for each in ("prefect.toml", "pyproject.toml", ".env")]
        texts = [each.read_text("utf-8") for each in here if each.is_file()]
    except (OSError, ValueError):
        return True  # Prefect says what is wrong with them.
    return Path("prefect.toml").is_file() or any(
        name in text for text in texts for name in ("[tool.prefect", "PREFECT_API_URL")
    )


def _guard_temporary_server() -> None:
    """Give the server that Prefect starts by itself a password, which only this process knows.

    Without a server of anybody Prefect starts one on a port of this machine for as long as the flow
    runs. Processes that this one starts inherit the password, and others cannot read it.
    """
    if not {CLIENT_VARIABLE, SERVER_VARIABLE}.isdisjoint(os.environ) or _knows_server():
        return
    os.environ[CLIENT_VARIABLE] = os.environ[SERVER_VARIABLE] = new_password()


_sign_in()
_guard_temporary_server()
