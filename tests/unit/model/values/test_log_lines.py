"""Every process writes lines of one form: the instant in UTC, the level, the logger, the message."""

import logging
import re

import pytest

from flows.log_lines import FlowLogLine
from meterlake.model.values.log_lines import LogLine, log_to_stderr, server_logging

FORM = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z (INFO|WARNING|ERROR) [\w.]+: \S.*")


def record(message, *args, level=logging.WARNING, **more):
    made = logging.LogRecord("meterlake.worker", level, "", 0, message, args, more.pop("exc", None))
    made.created = 1790856000.0625
    made.__dict__.update(more)
    return made


@pytest.mark.parametrize(
    ("given", "line"),
    [
        (("bill job %s: %s", "b1", "no\nplan"), "WARNING meterlake.worker: bill job b1: no plan"),
        (("100 %",), "WARNING meterlake.worker: 100 %"),
    ],
)
def test_a_record_is_one_line_with_its_instant(given, line):
    found = LogLine().format(record(*given))

    assert found == f"2026-10-01T12:00:00.062Z {line}"
    assert FORM.fullmatch(found)


def test_only_a_mistake_of_ours_has_a_traceback_behind_it():
    with pytest.raises(ZeroDivisionError) as caught:
        1 / 0  # noqa: B018
    exc = (caught.type, caught.value, caught.tb)
    lines = LogLine().format(record("a round failed", level=logging.ERROR, exc=exc)).splitlines()

    assert FORM.fullmatch(lines[0])
    assert lines[1].startswith("Traceback")
    # What Prefect hands over where nothing was raised.
    assert "NoneType" not in LogLine().format(record("x", exc=(None, None, None)))


@pytest.mark.parametrize("name", ["task_run_name", "flow_run_name"])
def test_a_record_of_prefect_names_its_run(name):
    made = record("Finished in state %s", "Completed()", **{name: "upload a.csv"})

    found = FlowLogLine(format="%(message)s", datefmt="%H").format(made)

    assert found.endswith(
        "Z WARNING meterlake.worker: 'upload a.csv': Finished in state Completed()"
    )


def test_servers_and_other_processes_log_alike(capsys):
    [handler] = server_logging()["handlers"].values()
    assert (handler["stream"], handler["formatter"]) == ("ext://sys.stderr", "line")
    assert server_logging()["root"]["level"] == "WARNING"
    before = list(logging.root.handlers)
    logging.root.handlers = []
    try:
        log_to_stderr()
        logging.getLogger("meterlake.letters").info("sent")
        logging.getLogger("boto3").info("found credentials")
    finally:
        logging.root.handlers = before
    [line] = capsys.readouterr().err.splitlines()
    assert FORM.fullmatch(line)
