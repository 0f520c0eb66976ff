"""The demo through the flows: with a server of its own, which is gone afterwards."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from urllib.request import ProxyHandler, Request, build_opener

import pytest

from sample_data import EXPECTED

ROOT = Path(__file__).parents[3]


def start(home: Path, folder: Path, *options: str) -> "subprocess.Popen[str]":
    """The demo in another folder, without HOME and with proxies that do not exist."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if name != "HOME" and not name.startswith(("PREFECT_", "METERLAKE_"))
    }
    environment["PYTHONPATH"] = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    environment["http_proxy"] = environment["HTTP_PROXY"] = "http://127.0.0.1:9"
    return subprocess.Popen(
        [sys.executable, "-m", "flows.demo", "--home", str(home), *options],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def page_of(line: str) -> Request:
    """What a browser asks for, to see the page that a line names."""
    return Request(line.split()[4], headers={"Accept": "text/html", "Sec-Fetch-Mode": "navigate"})


def processes_of(home: Path) -> list[str]:
    """The command lines of all processes that name a home."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = entry.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if str(home) in command:
            found.append(command)
    return found


def gone(home: Path, seconds: int = 15) -> bool:
    """Whether all processes of a home end within some time."""
    give_up = time.monotonic() + seconds
    while time.monotonic() < give_up:
        if not processes_of(home):
            return True
        time.sleep(0.1)
    return False


@pytest.mark.slow
def test_the_demo_runs_every_flow_and_serves_its_pages_until_ctrl_c(tmp_path: Path) -> None:
    home = tmp_path / "demo höme"

    process = start(home, tmp_path, "--keep")
    assert process.stdout is not None
    output = ""
    for line in process.stdout:
        output += line
        if line.startswith("Look at the runs: "):
            break
    assert process.poll() is None, output
    with build_opener(ProxyHandler({})).open(page_of(line), timeout=30) as page:
        assert page.status == 200
    process.send_signal(signal.SIGINT)
    output += process.communicate(timeout=60)[0]

    assert process.returncode == 0, output
    words = " ".join(output.split())
    for step in ("ingest", "bill", "export", "publish", "maintain"):
        assert f"── {step}: " in output
    assert "bills 40 of which 40 created" in words
    assert "http://127.0.0.1:" in output
    assert f"-m flows.server --home '{home}'" in output
    told = output.partition("What to do next:")[2].partition("Look at the runs")[0]
    commands = [line for line in told.splitlines() if line.startswith("  meterlake ")]
    assert len(commands) == 3
    assert all(f"--home '{home}'" in each for each in commands)
    for name, count in json.loads(EXPECTED.read_text())["totals"].items():
        assert f"{name} {count:,}" in words, name
    assert not processes_of(home)
    assert list(tmp_path.iterdir()) == [home]


needs_proc = pytest.mark.skipif(not Path("/proc/self").exists(), reason="no /proc")


@pytest.mark.long
@needs_proc
@pytest.mark.parametrize(
    ("number", "moment"),
    [
        (signal.SIGTERM, "Starting a Prefect server"),
        (signal.SIGKILL, "Starting a Prefect server"),
        pytest.param(signal.SIGINT, "── ingest", marks=pytest.mark.slow),
    ],
)
def test_the_children_end_with_the_demo_however_that_ends(
    tmp_path: Path, number: signal.Signals, moment: str
) -> None:
    home = tmp_path / "home"
    process = start(home, tmp_path)
    assert process.stdout is not None
    assert any(line.startswith(moment) for line in process.stdout)

    process.send_signal(number)
    process.communicate(timeout=60)

    assert process.returncode == (-number if number == signal.SIGKILL else 128 + number)
    assert gone(home)
