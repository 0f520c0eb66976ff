"""A request that comes with a key acts once, however often it is sent within a day.

A button that is pressed twice, a page that is loaded again and a program that lost an answer send
the same request once more. The first one claims its key before it acts, so of two at the same time
one waits. What it answered is kept, encrypted: answers may hold secrets that are shown once.
"""

import hashlib
import json
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from meterlake.model.errors import KeyReused, NotAnswered
from meterlake.stores import Stores
from meterlake.stores.state.access import idempotency
from meterlake.stores.state.access.idempotency import KeyedRequest

KEPT: Final = timedelta(days=1)
# Larger answers are not kept: of those one knows only that they were given.
ANSWER_MAX: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class IdempotencyKey:
    """A key with the request that it came with.

    Attributes:
        org_id: The organization.
        owner: Whose key it is: keys of others are other keys.
        key: The key.
        request: All of what is asked for.
    """

    org_id: str
    owner: str
    key: str
    request: bytes

    @property
    def id(self) -> str:
        """What is stored instead of the key."""
        text = json.dumps([self.org_id, self.owner, self.key])
        return hashlib.sha256(text.encode()).hexdigest()


def claim(stores: Stores, key: IdempotencyKey) -> str | None:
    """What the first request with a key was answered; None if this is the first one.

    Whoever gets None acts, and then calls `keep`, or `release` if nothing was done.

    Raises:
        KeyReused: The key came with another request.
        NotAnswered: The first request has not ended, or was interrupted.
    """
    state, now = stores.state, stores.state.now()
    digest = hashlib.sha256(key.request).hexdigest()
    with state.reading_home() as connection:
        found = idempotency.keyed_request(connection, key.id, now - KEPT)
    if found is None:
        made = KeyedRequest(key.id, key.org_id, digest, now)
        with state.writing_home() as connection:
            if idempotency.add_keyed_request(connection, made, now - KEPT):
                return None
            found = idempotency.keyed_request(connection, key.id, now - KEPT)
    if found is not None and found.request_sha256 != digest:
        raise KeyReused(key.key)
    # One that was released in this moment is free the next time.
    if found is None or found.answer is None:
        raise NotAnswered(key.key)
    return stores.secrets.decrypt(found.answer)


def keep(stores: Stores, key: IdempotencyKey, answer: str) -> None:
    """Keep what the request was answered, unless that is too much."""
    if len(answer) <= ANSWER_MAX:
        encrypted = stores.secrets.encrypt(answer)
        with stores.state.writing_home() as connection:
            idempotency.set_answer(connection, key.id, encrypted)


def release(stores: Stores, key: IdempotencyKey) -> None:
    """Give the key back: the request did nothing."""
    with stores.state.writing_home() as connection:
        idempotency.forget_keyed_request(connection, key.id)
