"""`meterlake serve` with Prefect: what came in and what is corrected are seen on its pages."""

import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from socket import AF_INET, AF_INET6, inet_ntop
from typing import Any

import httpx
import pytest

from meterlake.pipeline.home.setup import Initialized, initialize
from meterlake.stores import open_stores
from meterlake.stores.processes import free_port
from tests.homes import ACCOUNTS, EGRESS, HEADER, configure, csv_row, settings
from tests.integration.cli.test_serve import serving
from tests.prefect_access import SignedIn

WAIT_S = 300

pytestmark = pytest.mark.slow


def until(found: Any, what: str) -> Any:
    """What a question gives as soon as it gives anything."""
    give_up = time.monotonic() + WAIT_S
    while time.monotonic() < give_up:
        try:
            if answer := found():
                return answer
        except httpx.HTTPError:
            pass  # Not up yet.
        time.sleep(0.5)
    raise AssertionError(what)


def _told(answer: httpx.Response) -> Any:
    """What a server answers.

    Raises:
        httpx.HTTPStatusError: It could not do that.
    """
    return answer.raise_for_status().json()


@pytest.fixture
def made(tmp_path: Path) -> Initialized:
    options = settings(tmp_path / "home")
    found = initialize(options, "acme")
    with open_stores(options) as stores:
        configure(stores.organization(found.org_id), meters=[EGRESS], accounts=ACCOUNTS)
    return found


@pytest.fixture
def urls(tmp_path: Path, made: Initialized) -> Iterator[tuple[str, str]]:
    """The URLs of the API and of Prefect's."""
    assert made.org_id
    with serving(tmp_path / "home", "--port", str(free_port())) as (line, _):
        yield line["api"], f"{line['prefect']}/api"


def _pages(home: Path, url: str) -> httpx.Client:
    return httpx.Client(base_url=url, timeout=60, auth=SignedIn(home))


def client_of(url: str, made: Initialized) -> httpx.Client:
    given = {"grant_type": "client_credentials"}
    token = httpx.post(
        f"{url}/oauth/token", json=given, auth=(made.access_key_id, made.api_secret)
    ).json()["access_token"]
    headers = {"Authorization": f"Bearer {token}"}
    return httpx.Client(base_url=f"{url}/organizations/{made.org_id}", headers=headers, timeout=60)


def test_what_came_in_and_what_is_corrected_is_seen(
    tmp_path: Path, made: Initialized, urls: tuple[str, str]
) -> None:
    api, prefect = urls
    inbox = tmp_path / "home" / "drop" / "acme" / "inbox"
    (inbox / ".part").write_text(HEADER + csv_row("a") + csv_row("b", "many"))
    (inbox / ".part").rename(inbox / "dropped.csv")
    with client_of(api, made) as http, _pages(tmp_path / "home", prefect) as pages:
        until(lambda: http.get("/measurements/receipt?uid=a").json()["status"] == "accepted", "a")
        # Prefect is up, and so are its deployments.
        path = "/deployments/name/ingest-summary/ingest-summary"
        summary = until(lambda: pages.get(path).is_success and pages.get(path).json(), "served")

        about = {"id": "again", "mode": "re-derive", "month": "2026-09"}
        assert http.post("/backfills", json=about).json()["pending"] == "stage"
        until(lambda: http.get("/backfills/again").json()["status"] == "STAGED", "staged")
        [run] = until(lambda: runs(pages, "stage re-derive for acme"), "the step has a run")
        assert run["tags"] == ["org:acme"]

        quick = {"state": {"type": "SCHEDULED"}}
        path = f"/deployments/{summary['id']}/create_flow_run"
        # Prefect's server answers 503 while its database is busy, as its own clients know.
        run_id = until(lambda: _told(pages.post(path, json=quick)), "a run is made")["id"]
        until(
            lambda: _told(pages.get(f"/flow_runs/{run_id}"))["state_type"] == "COMPLETED", "ended"
        )
        assert pages.get(f"/flow_runs/{run_id}").json()["name"] == (
            "ingest summary of the last hour for acme"
        )
        [artifact] = pages.post(
            "/artifacts/filter", json={"artifacts": {"key": {"any_": ["ingest-summary"]}}}
        ).json()
    assert "dropped.csv" in artifact["data"]
    assert "InvalidNumber 1" in artifact["data"]


def test_prefect_listens_on_loopback_only_and_keeps_no_secret(
    tmp_path: Path, made: Initialized
) -> None:
    """After a webhook with a secret, a token, an upload through a signed URL, and their runs."""
    home, secret = tmp_path / "home", "canary-7f3a91c2e5d84b06"
    with serving(home, "--port", str(free_port())) as (line, process):
        api, prefect = line["api"], f"{line['prefect']}/api"
        with client_of(api, made) as http, _pages(tmp_path / "home", prefect) as pages:
            token = http.headers["Authorization"].removeprefix("Bearer ")
            hook = {
                "name": "hook",
                "code": "hook",
                "description": "d",
                "url": "https://example.com/hook",
                "credentials": {
                    "type": "M3TER_SIGNED_REQUEST",
                    "apiKey": "key",
                    "secret": secret,
                },
            }
            # While Prefect does not answer, the worker does without it.
            path = "/deployments/name/ingest-summary/ingest-summary"
            until(lambda: pages.get(path).is_success, "served")
            answer = http.post("/integrationdestinations/webhooks", json=hook)
            assert answer.is_success, answer.text
            body = (HEADER + csv_row("a")).encode()
            about = {
                "fileName": "usage.csv",
                "contentType": "text/csv",
                "contentLength": len(body),
            }
            url = http.post("/fileuploads/measurements/generateUploadUrl", json=about).json()
            sent = httpx.request("PUT", url["url"], headers=url["headers"], content=body)
            assert sent.is_success, sent.text
            until(lambda: http.get("/measurements/receipt?uid=a").is_success, "a")
            until(lambda: runs_of(pages), "a run")
            heard = {address for address, _ in listening(process.pid)}
    assert len(heard) > 0
    assert heard == {"127.0.0.1"}

    signature = url["url"].rpartition("/")[2]
    assert len(signature) > 20
    secrets = {each.encode() for each in (secret, made.api_secret, token, signature)}
    files = [path for path in (home / "prefect").rglob("*") if path.is_file()]
    assert any(path.suffix == ".db" for path in files)
    for path in home.rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            assert not [each for each in secrets if each in content], path


def runs_of(pages: httpx.Client) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = pages.post("/flow_runs/filter", json={}).json()
    return [each for each in found if each["state_type"] == "COMPLETED"]


def listening(pid: int) -> set[tuple[str, int]]:
    """The addresses and ports at which a process and its children listen, as Linux knows them."""
    sockets = set()
    for each in family_of(pid):
        with suppress(OSError):  # It ended meanwhile.
            for link in Path(f"/proc/{each}/fd").iterdir():
                with suppress(FileNotFoundError):
                    sockets.add(str(link.readlink()))
    found = set()
    for table, family in (("tcp", AF_INET), ("tcp6", AF_INET6)):
        for row in Path("/proc/net", table).read_text("ascii").splitlines()[1:]:
            _, local, _, state, *rest = row.split()
            if state == "0A" and f"socket:[{rest[5]}]" in sockets:
                address, port = local.split(":")
                words = [address[i : i + 8] for i in range(0, len(address), 8)]
                raw = b"".join(bytes.fromhex(word)[::-1] for word in words)
                found.add((inet_ntop(family, raw), int(port, 16)))
    return found


def family_of(pid: int) -> list[int]:
    """A process and all its children, grandchildren and so on."""
    found = [pid]
    for each in found:
        with suppress(OSError):
            for task in Path(f"/proc/{each}/task").iterdir():
                found += map(int, (task / "children").read_text("ascii").split())
    return found


def runs(pages: httpx.Client, name: str) -> list[dict[str, Any]]:
    body = {"flow_runs": {"name": {"any_": [name]}}}
    found: list[dict[str, Any]] = pages.post("/flow_runs/filter", json=body).json()
    return found
