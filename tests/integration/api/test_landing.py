"""The page at `/`: what runs where, for people; what is inside is shown inside only."""

import re
import socket
from contextlib import closing

import httpx
import pytest

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
        "/docs",
        "/openapi.json",
        f"http://127.0.0.1:{listening}",
        "/readyz",
        "/metrics",
    ]
    for each in links:
        if each.startswith("/"):
            assert httpx.get(server.url + each).status_code == httpx.codes.OK, each


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
