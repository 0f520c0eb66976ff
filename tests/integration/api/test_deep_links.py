"""A link to an operation of `/docs` opens it and scrolls to it, in a browser."""

import json
import time
from urllib.parse import quote

import httpx
import pytest

from tests.browser import opened
from tests.served import served

# What people see of an operation: whether it is open, and where it is in the window.
LOOK = """(() => {
  const found = [...document.querySelectorAll(".opblock.is-open")];
  return JSON.stringify({
    open: found.map((each) => each.id),
    top: found.length ? found[0].getBoundingClientRect().top : null,
    height: window.innerHeight,
    body: found.length ? found[0].querySelector(".opblock-body") !== null : false,
  });
})()"""
WAIT_S = 120


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    with served(tmp_path_factory.mktemp("links") / "home") as found:
        yield found.url


def look(evaluate, is_done):
    """What the page shows once it is as expected, or when there is no more time."""
    end = time.monotonic() + WAIT_S
    while True:
        found = json.loads(evaluate(LOOK) or "{}")
        if is_done(found) or time.monotonic() > end:
            return found
        time.sleep(0.2)


def is_shown(found, id_):
    return found.get("open") == [id_] and 0 <= found["top"] < found["height"] / 2


def operations(url):
    document = httpx.get(f"{url}/openapi.json").json()
    return [
        (operation["tags"][0], operation["operationId"])
        for path in document["paths"].values()
        for operation in path.values()
        if isinstance(operation, dict) and "operationId" in operation
    ]


@pytest.mark.slow
def test_a_link_opens_its_operation_and_scrolls_to_it(url, tmp_path):
    known = operations(url)
    spaced = next(each for each in known if " " in each[0])
    for n, (tag, operation) in enumerate((known[0], known[len(known) // 2], known[-1], spaced)):
        id_ = f"operations-{tag.replace(' ', '_')}-{operation}"
        with opened(f"{url}/docs#/{quote(tag)}/{operation}", tmp_path / str(n)) as evaluate:
            found = look(evaluate, lambda found, id_=id_: is_shown(found, id_))
            assert is_shown(found, id_), (tag, operation, found)
            assert found["body"]
