"""How laws are tried, and what tests are called.

The default suite tries the same examples wherever it runs, so that what is green here is green
there; `pytest --hypothesis-profile=search` looks for new ones. Neither minds a busy machine.
`.ci/run` tries the laws of ingest with more examples, others each time: the profile `ci` and a seed
that is printed.
"""

import gc
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

import pytest
from httpx._config import DEFAULT_TIMEOUT_CONFIG
from hypothesis import HealthCheck, Phase, settings

from tests.laws import CI, UNSHRUNK

pytest_plugins = [
    "tests.databases",
    "tests.effects",
    "tests.happened",
    "tests.killed_steps",
    "tests.outcomes",
    "tests.sharing",
]

_SHOWN_MAX: Final = 12
_QUICK_WORKERS: Final = 2

# What needs no server and no process; of unit tests, all but those of stores.
_QUICK: Final = ("unit", "golden", "properties")

# The tables of tests are small: more threads of DuckDB only wait for each other. Tests of what
# threads do say how many they want.
os.environ.setdefault("METERLAKE_THREADS", "1")

# Webhooks of tests have hosts that nobody can resolve here, unless a test says so.
os.environ.setdefault("METERLAKE_WEBHOOK_MUST_RESOLVE", "false")

# Homes of tests are written durably, which takes a disk milliseconds each time and memory none.
_MEMORY: Final = Path("/dev/shm")
_MEMORY_MIN_BYTES: Final = 4 << 30
if (
    "TMPDIR" not in os.environ
    and os.access(_MEMORY, os.W_OK)
    and shutil.disk_usage(_MEMORY).free >= _MEMORY_MIN_BYTES
):
    os.environ["TMPDIR"], tempfile.tempdir = str(_MEMORY), None

# Bytecode is kept, whatever the environment says: each of the hundreds of processes that tests start
# would compile the sources anew, and each run all tests.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# No test speaks TLS, but every client of HTTP reads all authorities first, which takes 50 ms: here
# are none.
os.environ.pop("SSL_CERT_FILE", None)
os.environ["SSL_CERT_DIR"] = str(Path(__file__).parent)

# Clients of tests that say nothing else have patience with a busy machine.
_PATIENCE_S: Final = 600
for _each in ("connect", "read", "write", "pool"):
    setattr(DEFAULT_TIMEOUT_CONFIG, _each, _PATIENCE_S)

# What signs in to buckets and catalogs finds who it is, and the same in whatever order tests run.
os.environ |= {
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test",
    "AWS_DEFAULT_REGION": "us-east-1",
    "PGUSER": "meterlake",
}

# Tables are as wide as they need, unless a test says how wide a terminal is: tests that run side by
# side are told the width of one that nobody sees.
os.environ.pop("COLUMNS", None)

# Full searches for garbage are fewer here; what does not live long is searched for as usual.
gc.set_threshold(*gc.get_threshold()[:2], 200)

_PATIENT = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}

settings.register_profile("repeatable", derandomize=True, **_PATIENT)
settings.register_profile("search", print_blob=True, **_PATIENT)
settings.register_profile(CI, print_blob=True, **_PATIENT)
# Who only asks whether a law fails needs no smallest example of it.
_FIRST_FOUND = (Phase.explicit, Phase.generate)
settings.register_profile(UNSHRUNK, derandomize=True, phases=_FIRST_FOUND, **_PATIENT)
settings.load_profile("repeatable")


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """Quick tests wait for nothing: a third worker on two cores would only collect once more."""
    chosen = any(str(each).startswith("-n") for each in config.invocation_params.args)
    if config.option.markexpr == "quick" and not chosen:
        config.option.maxprocesses = _QUICK_WORKERS


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Where only quick tests are asked for, do not even read the others."""
    if config.option.markexpr != "quick" or collection_path.parent != Path(__file__).parent:
        return None
    return True if collection_path.name not in _QUICK else None


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark quick tests: those of some folders that are neither slow nor long."""
    folder, inner, *_ = item.path.relative_to(Path(__file__).parent).parts
    if (
        folder in _QUICK
        and inner != "stores"
        and not any(map(item.get_closest_marker, ("slow", "benchmark", "long")))
    ):
        item.add_marker("quick")


def pytest_collection_finish() -> None:
    """Spare the tests that were collected, a million objects and more, searches for garbage."""
    gc.freeze()


def pytest_make_parametrize_id(val: Any, argname: str) -> str | None:
    """Call long bytes by what they are for: compressed ones hold the time, workers would differ."""
    return argname if isinstance(val, bytes) and len(val) > _SHOWN_MAX else None


@pytest.fixture
def no_credentials(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine that no cloud knows."""
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
