"""Every process writes lines of one form: the instant in UTC, the level, the logger, the message.

No log tells a secret: every record is masked before a handler sees it.
"""

import io
import logging
import re
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from uvicorn.logging import AccessFormatter

from flows.log_lines import FlowLogLine
from meterlake.model.values.log_lines import (
    LogLine,
    log_to_stderr,
    redact,
    redact_logs,
    server_logging,
)
from tests.long_cases import long_after

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


CANARY = "c4naryC4NARYc4nary"
JWT = f"eyJhbGciOiJFZERTQSJ9.eyJzdWIi{CANARY}.{CANARY}"
TEXTS = {
    "bearer": f"Authorization: Bearer {CANARY}",
    "basic": f"authorization: Basic {CANARY}==",
    "a plain header": f"{{'Authorization': '{CANARY}'}}",
    "a pair of bytes": f"(b'authorization', b'Bearer {CANARY}')",
    "a token in text": f"refused {JWT} of somebody",
    "only the scheme": f"sent bearer {CANARY}",
    "S3": f"PUT https://s3.example/b/k?X-Amz-Date=1&X-Amz-Signature={CANARY}&x=1 failed",
    "S3's credential": f"https://s3.example/b/k?X-Amz-Credential={CANARY}%2F2026",
    "S3's session": f"https://s3.example/b/k?a=1&X-Amz-Security-Token={CANARY}",
    "GCS": f"https://storage.example/b/k?X-Goog-Signature={CANARY}",
    "an older GCS": f"https://storage.example/b/k?Expires=1&Signature={CANARY}",
    "a download": f"GET /downloads/{CANARY} 200",
    "an upload": f"PUT http://127.0.0.1:8000/uploads/{CANARY} 200",
    "a letter": f"https://meter.example/oauth/password?token={CANARY}",
    "a code": f"http://localhost/console/callback?code={CANARY}&state=1",
    "a password of a database": f"cannot reach postgresql://user:{CANARY}@host/x",
    "a member": f'{{"apiSecret":"{CANARY}","a":1}}',
    "a password": f"password={CANARY}&a=1",
    "an e-mail address": f"{CANARY}@example.com is a user already",
}


@pytest.fixture
def logged():
    """A logger, and what its handler wrote."""
    before, written = logging.getLogRecordFactory(), io.StringIO()
    handler, logger = logging.StreamHandler(written), logging.Logger("test")  # noqa: LOG001
    logger.addHandler(handler)
    redact_logs()
    yield logger, written, handler
    logging.setLogRecordFactory(before)


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_a_secret_is_masked_wherever_it_stands(logged, text):
    logger, written, _ = logged
    logger.error(text)
    logger.error("said %s", text)
    logger.error("said %(it)s", {"it": text})
    logger.error("said %s", ValueError(text))
    error = ValueError(text)
    logger.error("it failed", exc_info=error)
    assert CANARY not in written.getvalue()
    assert written.getvalue().count("***") >= 5
    assert "ValueError: " in written.getvalue()


def test_what_the_message_and_its_argument_only_say_together_is_masked(logged):
    logger, written, _ = logged
    logger.error("Authorization: %s", CANARY)
    assert CANARY not in written.getvalue()


def test_the_access_log_of_uvicorn_keeps_its_form(logged):
    logger, written, handler = logged
    handler.setFormatter(AccessFormatter('%(client_addr)s "%(request_line)s" %(status_code)s'))
    path = f"/uploads/{CANARY}"
    logger.info('%s - "%s %s HTTP/%s" %d', "127.0.0.1:5", "PUT", path, "1.1", 200)
    assert written.getvalue() == '127.0.0.1:5 "PUT /uploads/*** HTTP/1.1" 200 OK\n'


@pytest.mark.parametrize(
    "text",
    [
        "GET /organizations/1/products 200",
        '{"operation":"PostProduct","status":200}',
        "ingested 12,345 rows of october.csv in 1.5 s",
        "the code 'basic' belongs to another plan",
    ],
)
def test_what_is_no_secret_stays(text):
    assert redact(text) == text


@given(st.text())
def test_masking_twice_masks_no_more(text):
    assert redact(redact(text)) == redact(text)


ENTRIES = {
    "flows": "import flows",
    "a process of the API": "from meterlake.console.app import app; app()",
}


@pytest.mark.parametrize("entry", long_after(1, [*ENTRIES]))
def test_every_process_that_logs_masks(entry):
    program = (
        f"import logging; {ENTRIES[entry]}\n"
        "logging.basicConfig(); "
        f"logging.getLogger('prefect.flow_runs').error('Authorization: Bearer {CANARY}')"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert "***" in done.stderr, done.stderr
    assert CANARY not in done.stderr
