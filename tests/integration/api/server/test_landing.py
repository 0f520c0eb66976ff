"""The page at `/`: what runs where, for people; what is inside is shown inside only."""

import os
import re
import socket
from contextlib import closing

import httpx
import pytest

from meterlake.stores.prefect_access import announce, ensure_password, is_own_connection
from meterlake.stores.processes import free_port
from tests.served import running, served

OUTSIDE = (
    {"Host": "meterlake.example"},
    {"X-Forwarded-For": "203.0.113.7"},
    {"Forwarded": "for=203.0.113.7"},
    {"X-Real-IP": "203.0.113.7"},
)


@pytest.fixture(scope="module")
def listening():
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        yield server.getsockname()[1]


@pytest.fixture(scope="module")
def server(tmp_path_factory, listening):
    home = tmp_path_factory.mktemp("landing") / "a <b> home"
    with served(home, prefect_url=f"http://127.0.0.1:{listening}/api") as found:
        yield found


def text(url, **headers):
    found = httpx.get(f"{url}/", headers=headers)
    assert found.status_code == httpx.codes.OK
    assert found.headers["content-type"].startswith("text/html")
    return found.text


def test_every_link_of_the_page_leads_somewhere(server, listening):
    links = re.findall(r'href="([^"]+)"', text(server.url))

    assert links == [
        "/console",
        "/docs",
        "/openapi.json",
        f"http://127.0.0.1:{listening}",
        "/readyz",
        "/metrics",
    ]
    for each in links:
        if each.startswith("/"):
            assert httpx.get(server.url + each, follow_redirects=True).is_success, each


def test_the_page_says_where_the_home_is_and_how_things_are(server):
    page = text(server.url)

    assert str(server.settings.home).replace("<b>", "&lt;b&gt;") in page
    assert "<b>" not in page
    assert "State: SQLite in this folder" in page
    assert "<span>ready</span>" in page
    assert "<span>answers</span>" in page
    assert f"{server.url}/oauth/token" in page


@pytest.mark.parametrize("headers", OUTSIDE, ids=lambda each: next(iter(each)))
def test_who_asks_from_elsewhere_sees_no_paths_and_no_addresses_inside(server, listening, headers):
    page = text(server.url, **headers)

    assert "API documentation" in page
    assert "a &lt;b&gt; home" not in page
    assert str(listening) not in page
    assert "its path is shown on the server&#39;s own machine" in page


OPENED = {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}


@pytest.fixture
def own_prefect(server, listening):
    """The Prefect server is that of the home, and has a password."""
    announce(server.settings.home, f"http://127.0.0.1:{listening}")
    return ensure_password(server.settings.home).partition(":")[2]


def test_a_browser_of_the_same_user_is_signed_in_to_prefect_by_the_link(
    server, listening, own_prefect
):
    page = text(server.url, **OPENED)

    assert f'href="http://127.0.0.1:{listening}/sign-in#meterlake%3A{own_prefect}"' in page


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "empty"},
        {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"},
        *({**OPENED, **each} for each in OUTSIDE),
    ],
    ids=str,
)
def test_nobody_else_sees_the_password(server, own_prefect, headers):
    """Not a script, not a frame, not who comes by a name or a proxy; other users: see below."""
    assert own_prefect not in text(server.url, **headers)


def test_another_user_of_the_machine_is_not_the_own_one():
    with closing(socket.create_server(("127.0.0.1", 0))) as here:
        with socket.create_connection(here.getsockname()) as asks:
            pair = (asks.getsockname(), here.getsockname())
            assert is_own_connection(*pair)
            # Sockets of which the table has no row of ours.
            assert not is_own_connection(pair[0], ("127.0.0.2", pair[1][1]))
            assert not is_own_connection(("::1", pair[0][1]), pair[1])
        if os.geteuid() == 0:
            # The socket belongs to who made it.
            os.seteuid(65534)
            try:
                asks = socket.create_connection(here.getsockname())
            finally:
                os.seteuid(0)
            with asks:
                assert not is_own_connection(asks.getsockname(), here.getsockname())


def test_prefect_that_does_not_answer_or_was_not_started_is_told(server):
    for url, says in (
        (f"http://127.0.0.1:{free_port()}/api", "does not answer"),
        ("", "not started"),
    ):
        changed = server.settings.model_copy(update={"prefect_url": url})
        with running(changed, free_port()) as other:
            assert says in text(other)


def test_the_page_runs_nothing_and_loads_nothing(server):
    found = httpx.get(f"{server.url}/")
    policy = found.headers["content-security-policy"]

    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "<script" not in found.text
    assert "style=" not in found.text
    assert found.headers["cache-control"] == "no-store"
    assert httpx.post(f"{server.url}/").status_code in {404, 405}
