"""Who may use the Prefect server of a home: whoever may, runs programs as its user."""

import asyncio
import json
import os
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import SimpleQueue
from shutil import which
from typing import Any

import httpx
import pytest
import websockets.sync.client
from websockets.exceptions import ConnectionClosed, InvalidStatus

from flows.guard import Guard
from flows.server import client_environment, server_environment, serving, wait_until_it_answers
from meterlake.stores.prefect_access import (
    CLIENT_VARIABLE,
    SERVER_VARIABLE,
    announce,
    ensure_password,
    password_for,
    server_folder,
)
from meterlake.stores.processes import free_port
from tests.prefect_access import SignedIn

ORIGIN = "http://127.0.0.1:4200"
EVIL = "http://evil.example"


async def _prefect(_scope: Any, _receive: Any, send: Any) -> None:
    """Whatever comes through is answered."""
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"reached"})


def ask(path: str = "/api/flows", method: str = "GET", **headers: str) -> httpx.Response:
    async def answered() -> httpx.Response:
        transport = httpx.ASGITransport(Guard(_prefect, ORIGIN))
        async with httpx.AsyncClient(transport=transport, base_url=ORIGIN) as client:
            return await client.request(method, path, headers=headers)

    return asyncio.run(answered())


def test_the_own_host_and_origin_are_let_through() -> None:
    assert ask().text == "reached"
    found = ask(method="POST", Origin=ORIGIN)
    assert found.text == "reached"
    assert found.headers["x-frame-options"] == "DENY"
    assert found.headers["content-security-policy"] == "frame-ancestors 'none'"


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:4200", "127.0.0.1", "127.0.0.1:4201", "127.0.0.1.evil.example:4200",
     "127.0.0.1:4200.evil.example", "", "[::1]:4200"],
)  # fmt: skip
def test_another_host_is_refused_by_name(host: str) -> None:
    """A name of somebody else that was made to mean this machine (DNS rebinding)."""
    found = ask(Host=host)

    assert found.status_code == httpx.codes.MISDIRECTED_REQUEST
    assert ORIGIN in found.text


@pytest.mark.parametrize("method", ["GET", "POST", "OPTIONS", "DELETE"])
@pytest.mark.parametrize(
    "origin", [EVIL, "null", "http://localhost:4200", "http://127.0.0.1:8000", "https://127.0.0.1:4200"]
)  # fmt: skip
def test_a_page_of_another_origin_is_refused(method: str, origin: str) -> None:
    found = ask(method=method, Origin=origin)

    assert found.status_code == httpx.codes.FORBIDDEN
    assert "access-control-allow-origin" not in found.headers


def test_localhost_leads_to_the_origin_of_the_pages() -> None:
    found = ask("/runs?state=failed", Host="localhost:4200")

    assert found.status_code == httpx.codes.TEMPORARY_REDIRECT
    assert found.headers["location"] == f"{ORIGIN}/runs?state=failed"


def test_the_page_that_signs_in_holds_no_password_and_runs_its_own_script_only() -> None:
    found = ask("/sign-in")

    policy = found.headers["content-security-policy"]
    [nonce] = re.findall(r"script-src 'nonce-([\w-]+)'", policy)
    assert f'<script nonce="{nonce}">' in found.text
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert ask("/sign-in", Host="evil.example").status_code == httpx.codes.MISDIRECTED_REQUEST


def test_a_password_is_random_is_made_once_and_is_private(tmp_path: Path) -> None:
    user, _, password = ensure_password(tmp_path / "a").partition(":")

    assert (user, len(password)) == ("meterlake", 43)
    assert ensure_password(tmp_path / "a") == f"{user}:{password}"
    assert ensure_password(tmp_path / "b") != f"{user}:{password}"
    announce(tmp_path / "a", ORIGIN)
    for path in server_folder(tmp_path / "a").iterdir():
        assert path.stat().st_mode & 0o077 == 0, path
    assert server_folder(tmp_path / "a").stat().st_mode & 0o077 == 0


def test_the_password_is_told_to_the_own_server_only(tmp_path: Path) -> None:
    announce(tmp_path, ORIGIN)
    password = ensure_password(tmp_path)

    assert password_for(tmp_path, f"{ORIGIN}/api") == password
    for other in ("http://127.0.0.1:4201/api", f"{ORIGIN}.evil.example/api", "http://evil.example"):
        assert password_for(tmp_path, other) is None
        assert CLIENT_VARIABLE not in client_environment(tmp_path, other, {})
    given = client_environment(tmp_path, f"{ORIGIN}/api", {CLIENT_VARIABLE: "of:another"})
    assert given[CLIENT_VARIABLE] == password
    assert client_environment(tmp_path, EVIL, {CLIENT_VARIABLE: "a:b"})[CLIENT_VARIABLE] == "a:b"


@pytest.mark.slow
@pytest.mark.parametrize("by", ["variable", "option"])
def test_a_flow_that_is_run_by_hand_signs_in(tmp_path: Path, by: str) -> None:
    announce(tmp_path, ORIGIN)
    told = f"import flows, os; print(os.environ.get({CLIENT_VARIABLE!r}))"
    kept = {name: each for name, each in os.environ.items() if not name.startswith("PREFECT_")}
    for api, password in ((f"{ORIGIN}/api", ensure_password(tmp_path)), (EVIL, "None")):
        environment = {**kept, "PREFECT_API_URL": api, "PYTHONPATH": os.pathsep.join(sys.path)}
        command = [sys.executable, "-c", told]
        if by == "variable":
            environment["METERLAKE_HOME"] = str(tmp_path)
        else:
            command += ["--home", str(tmp_path)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        assert done.stdout.strip() == password


TOLD = f"import flows, os; print(os.environ.get({CLIENT_VARIABLE!r}), os.environ.get({SERVER_VARIABLE!r}))"


@pytest.mark.slow
@pytest.mark.parametrize(
    "given",
    [
        "variable",
        "profile",
        "prefect.toml",
        "pyproject.toml",
        ".env",
        "a password",
        "other profile",
        "",
    ],
)
def test_a_temporary_server_has_a_password_unless_prefect_knows_another(
    tmp_path: Path, given: str
) -> None:
    """Whoever has chosen a server has chosen who may use it, too."""
    kept = {name: each for name, each in os.environ.items() if not name.startswith("PREFECT_")}
    environment = {**kept, "PREFECT_HOME": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)}
    profile = f'[profiles.mine]\nPREFECT_API_URL = "{EVIL}/api"\n'
    if given == "variable":
        environment["PREFECT_API_URL"] = f"{EVIL}/api"
    elif given == "a password":
        environment[CLIENT_VARIABLE] = "a:b"
    elif "profile" in given:
        active = "mine" if given == "profile" else "local"
        (tmp_path / "profiles.toml").write_text(f'active = "{active}"\n{profile}')
    elif given:
        text = {"pyproject.toml": "[tool.prefect.api]\n", ".env": "PREFECT_API_URL=x\n"}
        (tmp_path / given).write_text(text.get(given, "[api]\n"))

    def told() -> list[str]:
        command = [sys.executable, "-c", TOLD]
        done = subprocess.run(
            command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=True
        )
        return done.stdout.split()

    one, two = told(), told()
    if given in {"other profile", ""}:
        assert one[0] == one[1] != two[0]
        assert len(one[0]) > 40
    else:
        assert one == two == ["a:b" if given == "a password" else "None", "None"]


@pytest.mark.usefixtures("prefect")
def test_nobody_else_uses_the_server_that_prefect_starts_by_itself() -> None:
    """It listens on a port, so every user and every page of the machine may try."""
    from prefect.client.orchestration import get_client
    from prefect.settings import PREFECT_API_URL

    api = PREFECT_API_URL.value()
    assert api
    assert api.startswith("http://127.0.0.1:")
    for path in ("/admin/version", "/admin/settings", "/csrf-token?client=a"):
        assert httpx.get(f"{api}{path}").status_code == httpx.codes.UNAUTHORIZED
    for path in ("/flows/", "/deployments/", "/deployments/filter"):
        found = httpx.post(f"{api}{path}", json={"name": "x"})
        assert found.status_code in {httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN}
    with get_client(sync_client=True) as client:
        assert client.read_deployments() is not None


def test_prefect_reads_the_settings_that_protect_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from prefect.settings import Settings

    # Whatever somebody set for another server.
    around = {"PREFECT_SERVER_API_AUTH_STRING": "", "PREFECT_SERVER_CORS_ALLOWED_ORIGINS": "*"}
    found = server_environment(tmp_path, 4200, around)
    for name, value in found.items():
        if name.startswith("PREFECT_"):
            monkeypatch.setenv(name, value)

    settings = Settings()

    assert settings.server.api.auth_string is not None
    assert settings.server.api.auth_string.get_secret_value() == ensure_password(tmp_path)
    assert settings.api.auth_string == settings.server.api.auth_string
    assert settings.server.api.cors_allowed_origins == ORIGIN
    assert settings.server.api.csrf_protection_enabled
    assert settings.client.csrf_support_enabled


# The rest talks to a real server.


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    """A home and the URL of its Prefect server."""
    home, port = tmp_path_factory.mktemp("guarded") / "home", free_port()
    announce(home, f"http://127.0.0.1:{port}")
    with serving(home, port) as process:
        wait_until_it_answers(process, home, port)
        yield home, f"http://127.0.0.1:{port}"


@pytest.mark.slow
def test_nobody_makes_a_deployment_without_the_password(server: tuple[Path, str]) -> None:
    home, url = server
    body = {"name": "x", "pull_steps": [{"prefect.deployments.steps.run_shell_script": {}}]}
    wrong = SignedIn(home, "meterlake:wrong")
    for given in (None, wrong):
        for path in ("/flows/", "/deployments/", "/deployments/filter", "/work_pools/"):
            found = httpx.post(f"{url}/api{path}", json=body, auth=given)
            assert found.status_code in {httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN}, path
        for path in ("/admin/version", "/admin/settings", "/csrf-token?client=a", "/work_pools/a"):
            found = httpx.get(f"{url}/api{path}", auth=given)
            assert found.status_code == httpx.codes.UNAUTHORIZED, path
    # With the password, without the token: as a form of another page would be sent.
    basic = httpx.BasicAuth(*ensure_password(home).split(":"))
    found = httpx.post(f"{url}/api/flows/filter", json={}, auth=basic)
    assert (found.status_code, found.json()["detail"]) == (403, "Missing CSRF token.")
    assert httpx.post(f"{url}/api/flows/filter", json={}, auth=SignedIn(home)).json() == []
    assert httpx.get(f"{url}/api/health").json() is True


@pytest.mark.slow
@pytest.mark.parametrize("headers", [{"Origin": EVIL}, {"Host": "evil.example"}, {}])
@pytest.mark.parametrize(
    "path", ["/events/in", "/events/out", "/logs/out", "/task_runs/subscriptions/scheduled",
             "/work_pools/a/workers/connect"],
)  # fmt: skip
def test_nobody_talks_through_a_socket_without_the_password(
    server: tuple[Path, str], path: str, headers: Mapping[str, str]
) -> None:
    _, url = server
    address = f"{url.replace('http', 'ws')}/api{path}"
    sent = {name: value for name, value in headers.items() if name != "Host"}
    target = address.replace("127.0.0.1", headers["Host"]) if "Host" in headers else address
    host, _, port = url.removeprefix("http://").partition(":")

    def talk() -> None:
        with (
            socket.create_connection((host, int(port))) as raw,
            websockets.sync.client.connect(
                target,
                sock=raw,
                additional_headers=sent,
                subprotocols=["prefect"],  # type: ignore[list-item]
            ) as opened,
        ):
            opened.send(json.dumps({"type": "auth", "token": "wrong"}))
            while True:
                opened.recv(timeout=30)

    with pytest.raises((InvalidStatus, ConnectionClosed)) as raised:
        talk()
    if headers:
        assert isinstance(raised.value, InvalidStatus)
        assert raised.value.response.status_code == httpx.codes.FORBIDDEN


PAGE = """<!doctype html><title>evil</title><script>
const api = new URLSearchParams(location.search).get("api");
const told = [];
async function attempt(name, path, options) {
  try { const a = await fetch(api + path, options); told.push(name + " " + a.status + " " + (await a.text())); }
  catch (error) { told.push(name + " failed"); }
}
(async () => {
  await attempt("read", "/admin/version");
  await attempt("simple", "/flows/", {method: "POST", mode: "cors", body: '{"name": "evil"}',
                                      headers: {"Content-Type": "text/plain"}});
  await attempt("json", "/flows/", {method: "POST", body: '{"name": "evil"}',
                                    headers: {"Content-Type": "application/json"}});
  await attempt("token", "/csrf-token?client=evil");
  await new Promise(done => {
    const socket = new WebSocket(api.replace("http", "ws") + "/events/in", "prefect");
    socket.onopen = () => { told.push("socket opened"); done(); };
    socket.onerror = () => { told.push("socket failed"); done(); };
  });
  await fetch("/told", {method: "POST", body: told.join("\\n")});
})();
</script>"""


@contextmanager
def evil_site() -> Iterator[tuple[int, "SimpleQueue[str]"]]:
    """A server of somebody else's page: its port, and what the page reports."""
    told = SimpleQueue[str]()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(PAGE.encode())

        def do_POST(self) -> None:
            told.put(self.rfile.read(int(self.headers["Content-Length"])).decode())
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as found:
        threading.Thread(target=found.serve_forever, daemon=True).start()
        yield found.server_address[1], told
        found.shutdown()


def browser(profile: Path, *options: str) -> list[str]:
    """The command of a browser without a window."""
    found = which("chromium")
    if found is None:
        pytest.skip("needs chromium in PATH")
    command = [found, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"]
    return [*command, "--no-proxy-server", f"--user-data-dir={profile}", *options]


def shown(url: str, profile: Path, *options: str) -> str:
    """What a browser shows at a URL in the end."""
    command = browser(profile, "--virtual-time-budget=20000", *options, "--dump-dom", url)
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    return done.stdout


@pytest.mark.slow
def test_a_page_of_another_origin_in_a_browser_does_nothing(
    server: tuple[Path, str], tmp_path: Path
) -> None:
    home, url = server
    profile = tmp_path / "profile"
    # The operator is signed in, in the same browser.
    shown(announce(home, url).as_uri(), profile)
    with evil_site() as (port, told):
        page = f"http://127.0.0.1:{port}/?api={url}/api"
        with subprocess.Popen(
            browser(profile, "--remote-debugging-port=0", page), stderr=subprocess.DEVNULL
        ) as opened:
            try:
                found = told.get(timeout=120).splitlines()
            finally:
                opened.terminate()

    assert found == [f"{each} failed" for each in ("read", "simple", "json", "token", "socket")]
    assert httpx.post(f"{url}/api/flows/filter", json={}, auth=SignedIn(home)).json() == []


@pytest.mark.slow
def test_a_name_that_means_this_machine_reaches_nothing(
    server: tuple[Path, str], tmp_path: Path
) -> None:
    """DNS rebinding: for the browser the page and the server are of one origin."""
    home, url = server
    port = url.rpartition(":")[2]
    rebound = f"http://evil.example:{port}"
    rules = "--host-resolver-rules=MAP evil.example 127.0.0.1"
    for path in ("/", "/sign-in", "/api/admin/version", "/ui-settings", "/runs"):
        found = shown(f"{rebound}{path}", tmp_path / "profile", rules)
        assert f"this server answers at {url} only" in found
    for path in ("/api/admin/version", "/api/csrf-token?client=a", "/sign-in"):
        headers = {"Host": f"evil.example:{port}", "Origin": rebound}
        for auth in (None, SignedIn(home)):
            found_at = httpx.get(f"{url}{path}", headers=headers, auth=auth)
            assert found_at.status_code == httpx.codes.MISDIRECTED_REQUEST


@pytest.mark.slow
def test_the_page_in_the_home_signs_a_browser_in(server: tuple[Path, str], tmp_path: Path) -> None:
    home, url = server
    profile = tmp_path / "profile"
    before = shown(f"{url}/dashboard", profile)
    assert 'type="password"' in before

    after = shown(announce(home, url).as_uri(), profile)

    assert 'type="password"' not in after
    assert "Dashboard" in after
