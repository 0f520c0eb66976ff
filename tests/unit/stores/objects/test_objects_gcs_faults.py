"""What goes wrong on the way to Google's store, request by request."""

import itertools
import json
import os

import pytest

from meterlake.model.errors import Invalid, NotFound, Unavailable
from meterlake.settings import Settings
from meterlake.stores.objects import gcs, open_objects
from meterlake.stores.objects.base import Refused
from tests.doubles.http_faults import Answer, Cut, relay

pytest_plugins = ["tests.doubles.fixtures"]

CHUNK = 256 << 10  # the smallest that Google takes
CONTENT = os.urandom(2 * CHUNK + 5)
_numbers = itertools.count()


@pytest.fixture(scope="module")
def world(strict_gcs):
    """A relay, the store behind it, and the same without; tries follow each other at once."""
    retry = gcs._RETRY.with_timeout(20.0).with_delay(initial=0.001, maximum=0.01)
    with pytest.MonkeyPatch.context() as patch, relay(strict_gcs) as network:
        patch.delenv("GOOGLE_APPLICATION_CREDENTIALS", raising=False)
        patch.setattr("google.cloud.storage.blob._MAX_MULTIPART_SIZE", CHUNK)
        patch.setattr(gcs, "CHUNK_BYTES", CHUNK)
        patch.setattr(gcs, "_OPTIONS", {"timeout": (5, 20), "retry": retry})
        stores = [
            open_objects("gs://test-bucket/faults", Settings(gcs_endpoint=url))
            for url in (network.url, strict_gcs)
        ]
        yield network, *stores


@pytest.fixture
def network(world):
    """The relay, which does nothing but relaying yet."""
    world[0].rule = lambda _: None
    world[0].asked.clear()
    return world[0]


@pytest.fixture
def key():
    return f"k{next(_numbers)}"


def told(status: int, message: str) -> Answer:
    body = json.dumps({"error": {"code": status, "message": message}})
    return Answer(status, body.encode(), {"Content-Type": "application/json"})


def nth_upload(number: int, times: int, fail):
    """A rule that lets the n-th request of an upload fail some times."""
    seen, left = [0], [times]

    def rule(asked):
        if not asked.path.startswith("/upload/"):
            return None
        seen[0] += 1
        if seen[0] < number or not left[0]:
            return None
        left[0] -= 1
        return fail()

    return rule


def cut(when):
    def fail():
        raise Cut(when)

    return fail


# An answer to a chunk in the middle is not lost here: Google passes over bytes that come once more,
# the emulator refuses them.
@pytest.mark.parametrize(
    ("number", "when"),
    [(1, "before"), (1, "after"), (2, "before"), (3, "before"), (4, "before"), (4, "after")],
)
def test_a_connection_that_is_cut_in_any_chunk_is_mended(world, network, key, number, when):
    network.rule = nth_upload(number, 2, cut(when))
    world[1].put_bytes(key, CONTENT, create_only=True)

    assert world[2].get(key) == CONTENT


@pytest.mark.parametrize("number", [1, 2, 4])
@pytest.mark.parametrize("status", [429, 503])
def test_a_store_that_is_busy_is_asked_again(world, network, key, number, status):
    network.rule = nth_upload(number, 3, lambda: told(status, "slow down"))
    world[1].put_bytes(key, CONTENT, create_only=True)

    assert world[2].get(key) == CONTENT


@pytest.mark.parametrize(
    ("status", "kind"),
    [(401, Refused), (403, Refused), (404, NotFound), (400, Invalid), (503, Unavailable)],
)
@pytest.mark.parametrize("content", [b"small", CONTENT], ids=["small", "large"])
def test_what_the_store_says_is_told_and_nothing_is_left(
    world, network, key, status, kind, content
):
    retry = gcs._RETRY.with_timeout(0.3).with_delay(initial=0.01, maximum=0.01)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gcs, "_OPTIONS", {"timeout": (5, 20), "retry": retry})
        network.rule = nth_upload(1, 10**6, lambda: told(status, "no"))
        with pytest.raises(kind):
            world[1].put_bytes(key, content, create_only=True)

    with pytest.raises(NotFound):
        world[2].head(key)
