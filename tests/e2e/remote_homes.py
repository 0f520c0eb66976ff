"""Machines of one installation: State and catalogs in PostgreSQL, files in a bucket, a home each."""

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import httpx
from cryptography.fernet import Fernet

from meterlake.pipeline.home.setup import Initialized, initialize
from meterlake.settings import Settings
from meterlake.stores import open_stores
from tests.databases import NUMBERS, LakeStore, new_database
from tests.homes import ACCOUNTS, EGRESS, configure, settings, wire_row

TIMEOUT_S = 60


class Installation:
    """Where State, catalogs and files of several machines are, and one organization."""

    def __init__(self, folder: Path, database: str, store: LakeStore) -> None:
        prefix = f"{store.scheme}://lakes/installation-{next(NUMBERS)}"
        self.folder = folder
        self.store = store
        self.options: dict[str, Any] = {
            "state": database,
            "catalog": database,
            "lake": f"{prefix}/lakes",
            "objects": f"{prefix}/objects",
            "secret_key": Fernet.generate_key().decode(),
            store.setting: store.url,
            "segment_seconds": 0.2,
        }
        self.prefix = prefix

    def machine(self, name: str) -> Settings:
        """What the processes of a machine are told; its home is made if it is not there."""
        home = self.folder / name
        home.mkdir(exist_ok=True)
        return settings(home, **self.options)

    def initialize(self) -> Initialized:
        """Make the organization, and configure it."""
        first = self.machine("first")
        made = initialize(first, "Acme")
        with open_stores(first) as stores:
            configure(stores.organization(made.org_id), meters=[EGRESS], accounts=ACCOUNTS)
        return made


@contextmanager
def installation(folder: Path, server: str, store: LakeStore) -> Iterator[Installation]:
    """State and lakes of an installation of a test."""
    yield Installation(folder, new_database(server), store)


class Client:
    """Posts batches until it is told to stop, and notes which of them were acknowledged."""

    def __init__(
        self, url: str, made: Initialized, name: str, rows: int = 20, pause_s: float = 0.05
    ) -> None:
        self._url = url
        self._name = name
        self._rows = rows
        self._pause_s = pause_s
        self._path = f"/organizations/{made.org_id}/measurements"
        self._key = (made.access_key_id, made.api_secret)
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._post_all)
        self.acknowledged: list[str] = []
        self.refused: list[int] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join(TIMEOUT_S)

    def _post_all(self) -> None:
        with httpx.Client(base_url=self._url, timeout=TIMEOUT_S) as http:
            asked = {"grant_type": "client_credentials"}
            token = http.post("/oauth/token", json=asked, auth=self._key).json()["access_token"]
            http.headers["Authorization"] = f"Bearer {token}"
            number = 0
            while not self._end.wait(self._pause_s):
                uids = [f"{self._name}-{number}-{row}" for row in range(self._rows)]
                self._post(http, uids)
                number += 1

    def _post(self, http: httpx.Client, uids: Sequence[str]) -> None:
        body = json.dumps({"measurements": [wire_row(uid) for uid in uids]})
        try:
            answer = http.post(self._path, content=body)
        except httpx.HTTPError:
            return  # Nobody said that it is there.
        if answer.is_success:
            self.acknowledged += uids
        else:
            self.refused.append(answer.status_code)


def stored_uids(uids: Callable[[], list[tuple[Any, ...]]]) -> list[str]:
    """What is in the index of uids."""
    return sorted(row[0] for row in uids())
