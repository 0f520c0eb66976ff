"""The receivers that the documentation shows take what is sent, once, and nothing else."""

import os
import re
import shutil
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from meterlake.model.configuration.integrations import RunStatus
from meterlake.settings import Settings
from tests.deliveries import (
    SECRET,
    add_runs,
    client_of,
    content_for,
    new_webhook,
    run_of,
    send_due,
    tries,
)
from tests.organizations import Clock, new_organization, open_new

DOCUMENT = Path(__file__).parents[4] / "docs" / "webhooks.md"
PATIENCE_S = 180
COMMANDS = {"python": ([sys.executable], ".py"), "typescript": (["node"], ".mjs")}


def program(language):
    """The receiver in a language, as the document has it."""
    found = re.search(
        rf"<!-- receiver: {language} -->\n```{language}\n(.*?)```", DOCUMENT.read_text(), re.DOTALL
    )
    assert found
    return found[1]


@contextmanager
def running(language, folder, secret):
    """A receiver in a process of its own: its port, and the file that it writes to."""
    command, suffix = COMMANDS[language]
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    file, output = folder / f"receiver{suffix}", folder / "output"
    file.write_text(program(language))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    env = os.environ | {"SECRET": secret, "PORT": str(port)}
    with output.open("w") as to, subprocess.Popen([*command, file], env=env, stdout=to) as process:
        try:
            _wait_for(port, process)
            yield port, output
        finally:
            process.kill()


def _wait_for(port, process):
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        assert process.poll() is None
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise AssertionError("the receiver does not listen")


def clock_now():
    found = Clock()
    found.time = datetime.now(UTC)
    return found


@pytest.mark.parametrize("secret", [SECRET, "free text: Größe"])
@pytest.mark.parametrize("language", COMMANDS)
def test_the_receiver_of_the_document_takes_each_delivery_once(tmp_path, language, secret):
    settings = Settings(home=tmp_path / "home", webhook_allow=("127.0.0.1",), _env_file=None)
    clock = clock_now()
    with (
        running(language, tmp_path, secret) as (port, output),
        open_new(settings, clock) as stores,
    ):
        org = new_organization(stores.state)
        organization = stores.organization(org)
        credentials = {"type": "M3TER_SIGNED_REQUEST", "apiKey": "k", "secret": secret}
        right, wrong = (
            new_webhook(organization, f"http://127.0.0.1:{port}/{name}", credentials=each)
            for name, each in (("a", credentials), ("b", credentials | {"secret": "wrong"}))
        )
        [taken, refused] = add_runs(organization, [content_for(right), content_for(wrong)])
        send_due(stores, client_of(stores))

        assert run_of(organization, taken).status is RunStatus.COMPLETE
        assert run_of(organization, refused).status is RunStatus.AWAITING_RETRY
        assert [each.status_code for each in tries(organization, refused)] == [401]
        # A receiver refuses what is as old as an attacker's copy.
        clock.advance(minutes=-6)
        [late] = add_runs(organization, [content_for(right)])
        send_due(stores, client_of(stores))
        assert [each.status_code for each in tries(organization, late)] == [401]
        assert output.read_text().splitlines() == ["billing.bill.created"]


@pytest.mark.parametrize("language", COMMANDS)
def test_a_receiver_has_about_twenty_lines(language):
    lines = [line for line in program(language).splitlines() if line.strip()]

    assert 15 <= len(lines) <= 26


def find_type_checker():
    """The compiler of TypeScript, and the folder of the types of Node beside it; None without."""
    here = DOCUMENT.parents[1] / "node_modules"
    found = shutil.which("tsc") or shutil.which("tsc", path=str(here / ".bin"))
    if found is None:
        return None
    modules = [each for each in Path(found).resolve().parents if each.name == "node_modules"]
    types = (each / "@types" for each in (*modules, here))
    return next(((found, each) for each in types if (each / "node").exists()), None)


def test_the_receiver_in_typescript_has_right_types(tmp_path):
    checker = find_type_checker()
    if checker is None:
        pytest.skip("tsc and @types/node are not installed")
    command, types = checker
    file = tmp_path / "receiver.mts"
    file.write_text(program("typescript"))
    options = ["--noEmit", "--strict", "--skipLibCheck", "--module", "nodenext"]
    options += ["--target", "es2022", "--types", "node", "--typeRoots", str(types)]

    done = subprocess.run([command, *options, file], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout) == (0, "")
