"""No log tells a secret: every record is masked before a handler sees it."""

import io
import logging
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from uvicorn.logging import AccessFormatter

from meterlake.model.values.redaction import redact, redact_logs

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
    "a process of the API": "from meterlake.api.app import app; app()",
}


@pytest.mark.parametrize("entry", ENTRIES)
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
