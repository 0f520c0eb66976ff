"""`meterlake serve` as a process: ready, answering, ingesting, and gone without a trace."""

import json
import os
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

import httpx
import pytest
from m3ter import M3ter

from flows.schedules import DEPLOYMENTS
from meterlake.cli import serve
from meterlake.cli.serve import ServedParts, _prefect_api, _warn
from meterlake.model.errors import Invalid
from meterlake.pipeline.home.setup import initialize
from meterlake.stores.processes import free_port
from tests.console_world import Browser
from tests.homes import settings
from tests.prefect_access import SignedIn
from tests.unit.model.values.test_log_lines import FORM

WAIT_S = 180
COMMAND = "from meterlake.cli import main; main()"


@contextmanager
def serving(home, *arguments):
    """The command in a session of its own; the first line that it prints, and the process."""
    environment = {**os.environ, "METERLAKE_SETTLE_SECONDS": "0"}
    command = [sys.executable, "-c", COMMAND, "serve", "--home", str(home), "--json", *arguments]
    with subprocess.Popen(
        command,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        try:
            yield json.loads(process.stdout.readline()), process
        finally:
            process.terminate()
            process.wait(WAIT_S)


def until(condition, wait_s=WAIT_S):
    give_up = time.monotonic() + wait_s
    while not condition():
        assert time.monotonic() < give_up
        time.sleep(0.1)


def refuses(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


@pytest.fixture
def home(tmp_path):
    made = initialize(settings(tmp_path / "home"), "Acme")
    return tmp_path / "home", made


@pytest.mark.long
def test_it_answers_ingests_and_stops_cleanly(home):
    folder, made = home
    port = free_port()
    arguments = ("--port", str(port), "--no-flows", "--without", "letters")
    with serving(folder, *arguments) as (line, process):
        assert line["api"] == f"http://127.0.0.1:{port}"
        assert "You are the first" in httpx.get(line["first_sign_in"]).text
        # Without Prefect nothing of its schedules.
        by_itself = {each["name"]: each["when"] for each in line["byItself"]}
        assert by_itself["scheduled-bills"] == "every 1 s"
        assert {"letters", "publish"}.isdisjoint(by_itself)
        assert "prefect" not in line
        assert "not started" in httpx.get(line["page"]).text
        client = M3ter(
            base_url=line["api"],
            api_key=made.access_key_id,
            api_secret=made.api_secret,
            org_id=made.org_id,
        )
        client.products.create(name="Storage", code="storage")
        inbox = folder / "drop" / made.org_code / "inbox"
        until(inbox.exists)
        (inbox / "bad.parquet").write_bytes(b"nothing of the kind")
        (inbox / "rows.csv").write_text("meter,account,uid,ts\nnone,acme,1,2026-10-01T00:00:00Z\n")
        done = inbox.parent / "done"
        until(lambda: done.exists() and any(done.iterdir()))
        until(lambda: any((inbox.parent / "failed").rglob("*bad*")))
        process.send_signal(signal.SIGTERM)
        errors = process.stderr.read().decode()
        assert process.wait(WAIT_S) == 0
        assert "Traceback" not in errors
        assert '"operation":"PostProduct"' in errors
        assert '"operation":"GenerateToken"' in errors
        assert '"operation":"other"' not in errors
        assert [line for line in errors.splitlines() if not FORM.fullmatch(line)] == []
        assert made.api_secret not in errors
    assert refuses(port)


@pytest.mark.slow
def test_several_processes_answer_of_what_another_server_stored(home):
    folder, made = home
    port = free_port()
    client = M3ter(
        base_url=f"http://127.0.0.1:{port}",
        api_key=made.access_key_id,
        api_secret=made.api_secret,
        org_id=made.org_id,
    )
    with serving(folder, "--port", str(port), "--no-flows"):
        product = client.products.create(name="Storage", code="storage")
    with serving(folder, "--port", str(port), "--no-flows", "--workers", "2") as (line, _):
        assert client.products.retrieve(product.id).code == "storage"
        metrics = httpx.get(f"{line['api']}/metrics").text
        assert "meterlake_requests_total" in metrics


def worker_of(process):
    """The process id of the worker that `serve` runs at the moment."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    for each in children:
        with suppress(FileNotFoundError):  # It ended meanwhile.
            if b"meterlake.worker" in Path(f"/proc/{each}/cmdline").read_bytes():
                return int(each)
    return None


@pytest.mark.slow
def test_a_worker_that_is_killed_is_replaced_and_all_end_with_a_killed_parent(home):
    folder, _ = home
    port = free_port()
    with serving(folder, "--port", str(port), "--no-flows") as (_, process):
        until(lambda: worker_of(process))
        killed = worker_of(process)
        os.kill(killed, signal.SIGKILL)
        until(lambda: worker_of(process) not in {None, killed})
        process.kill()
        process.wait(WAIT_S)
        until(lambda: refuses(port))


def test_prefect_has_a_port_that_stays_and_moves_only_if_it_is_taken(tmp_path):
    options, seen = settings(tmp_path), []
    for named, taken in ((None, False), (None, True), (9, False), (4200, True)):
        with ExitStack() as stack:
            port = stack.enter_context(one_port(serve, taken=taken))
            parts = ServedParts(prefect_port=None if named is None else port)
            try:
                seen.append(_prefect_api(stack, options, parts).replace(str(port), "PORT"))
            except Invalid as error:
                seen.append(str(error).replace(str(port), "PORT"))
    first, moved, chosen, refused = seen
    assert first == chosen == "http://127.0.0.1:PORT/api"
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/api", moved)
    assert (
        refused
        == "--prefect-port: PORT is not allowed: it must be a port of this machine that is free"
    )


def test_two_homes_that_start_at_once_do_not_meet_at_a_port(tmp_path, caplog):
    with ExitStack() as stack:
        port = stack.enter_context(one_port(serve, taken=False))
        apis = [_prefect_api(stack, settings(tmp_path), ServedParts()) for _ in range(2)]
    assert apis[0] == f"http://127.0.0.1:{port}/api"
    assert apis[1] != apis[0]
    [said] = caplog.messages
    assert f"port {port} is taken: Prefect answers at {apis[1].removesuffix('/api')}" in said
    assert "--prefect-port" in said


@contextmanager
def one_port(module, *, taken):
    """A port that is the default of Prefect meanwhile, free or taken by somebody else."""
    with pytest.MonkeyPatch.context() as patch, socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        port = other.getsockname()[1]
        if taken:
            other.listen()
        else:
            other.close()
        patch.setattr(module, "_PREFECT_PORT", port)
        yield port


@pytest.mark.slow
def test_a_port_that_is_taken_is_one_clear_line(home):
    folder, _ = home
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        command = [sys.executable, "-c", COMMAND, "serve", "--home", str(folder), "--no-flows"]
        done = subprocess.run(
            [*command, "--port", str(port)],
            capture_output=True,
            text=True,
            timeout=WAIT_S,
            check=False,
        )
    assert done.returncode == 1
    assert "choose another --port if that one is taken" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_an_address_for_other_machines_says_what_it_opens(home):
    folder, _ = home
    port = free_port()
    with serving(folder, "--host", "0.0.0.0", "--port", str(port), "--no-flows") as (line, process):
        assert line["api"] == f"http://0.0.0.0:{port}"
        told = next(each for each in process.stderr if b"Other machines reach" in each).decode()
    opened = ("the API", "/metrics", "without a token", "plain HTTP", "Prefect stays on 127.0.0.1")
    assert [each for each in opened if each not in told] == []


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost", "127.0.0.5"])
def test_an_address_of_this_machine_opens_nothing(host, caplog):
    _warn(host, "http://x")
    assert caplog.text == ""


@pytest.mark.parametrize("host", ["::", "10.0.0.5", "meter.example"])
def test_any_other_address_says_what_it_opens(host, caplog):
    _warn(host, "http://x")
    assert "Other machines reach http://x" in caplog.text


@pytest.mark.long
def test_a_missing_home_is_one_clear_line(tmp_path):
    command = [sys.executable, "-c", COMMAND, "serve", "--home", str(tmp_path / "none")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S, check=False)

    assert done.returncode == 1
    assert "meterlake init" in done.stderr


@pytest.mark.slow
def test_what_is_stopped_by_sigterm_leaves_no_schedule_paused(home):
    folder, _ = home
    with serving(folder, "--port", str(free_port())) as (line, process):
        until(lambda: len(deployments(line["prefect"], folder)) >= len(DEPLOYMENTS), 4 * WAIT_S)
        process.send_signal(signal.SIGTERM)
        assert process.wait(WAIT_S) == 0
    with closing(sqlite3.connect(folder / "prefect" / "prefect.db")) as database:
        [[all_, paused]] = database.execute("SELECT count(*), sum(paused) FROM deployment")
        [[active]] = database.execute("SELECT min(active) FROM deployment_schedule")
    assert all_ >= len(DEPLOYMENTS)
    assert (paused, active) == (0, 1)
    # Nobody else reads what Prefect wrote, either. Its pages are copies of its package, with the
    # modes of that, below a folder that is closed.
    opened = {path for path in folder.rglob("*") if path.lstat().st_mode & 0o077}
    assert {path for path in opened if folder / "prefect" / "ui" not in path.parents} == set()
    assert (folder / "prefect").stat().st_mode & 0o077 == 0


def deployments(prefect, home):
    with suppress(httpx.HTTPError):
        answer = httpx.post(f"{prefect}/api/deployments/filter", json={}, auth=SignedIn(home))
        if answer.status_code == httpx.codes.OK:
            return answer.json()
    return []


@pytest.mark.long
def test_a_name_that_nothing_has_is_refused_before_anything_is_served(home):
    folder, _ = home
    command = [sys.executable, "-c", COMMAND, "serve", "--home", str(folder), "--without", "publsh"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    # Its lines are as wide as something that ran before in this process says.
    told = " ".join(done.stderr.split())
    assert "--without: 'publsh' is not allowed: it must be one of drops, segments" in told
    assert "did you mean publish?" in told


@pytest.mark.long
def test_the_demo_serves_its_console_and_a_link_signs_in(tmp_path):
    port = free_port()
    arguments = ("demo", "--console", "--home", tmp_path / "home", "--port", port, "--json")
    command = [sys.executable, "-c", COMMAND, *map(str, arguments)]
    without_window = {k: v for k, v in os.environ.items() if "DISPLAY" not in k}
    log = (tmp_path / "log").open("wb")
    with (
        log,
        subprocess.Popen(
            command,
            env=without_window,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            start_new_session=True,
        ) as process,
    ):
        try:
            line = next(
                found for each in process.stdout if "sign_in" in (found := json.loads(each))
            )
            page = sign_in_by(line["sign_in"])
            again = sign_in_with(line)
        finally:
            process.terminate()
            process.wait(WAIT_S)

    assert page.url.path == "/console/months/2026-10"
    assert "Robin Halvorsen" in page.text
    assert again.url.path == page.url.path
    assert process.returncode == 0


def sign_in_with(line):
    """Sign in at the console with an address and a password."""
    browser = Browser(httpx.Client(base_url=line["console"], follow_redirects=True))
    browser.go(line["console"])
    given = {"email": line["email"], "password": line["password"]}
    browser.send(given, path=f"{line['api']}/oauth/authorize")
    browser.client.close()
    return browser.page


def sign_in_by(link):
    """Sign in by a link, and go to the page that comes."""
    with httpx.Client(follow_redirects=True) as browser:
        page = browser.get(link)
        fields = re.findall(r'type="hidden" name="([^"]*)" value="([^"]*)"', page.text)
        return browser.post(link.partition("?")[0], data=dict(fields))
