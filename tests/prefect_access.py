"""Who signs in to the Prefect server of a home, as Prefect's own clients do."""

from collections.abc import Generator
from pathlib import Path

import httpx

from meterlake.stores.prefect_access import ensure_password


class SignedIn(httpx.Auth):
    """The password of a home, and the token that changes need besides."""

    requires_response_body = True

    def __init__(self, home: Path, password: str | None = None) -> None:
        user, _, secret = (password or ensure_password(home)).partition(":")
        self._basic = httpx.BasicAuth(user, secret)

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        """Sign a request."""
        request = next(self._basic.auth_flow(request))
        if request.method not in {"GET", "HEAD", "OPTIONS"}:
            asked = httpx.Request(
                "GET",
                request.url.copy_with(path="/api/csrf-token", query=b"client=tests"),
                headers={"Authorization": request.headers["Authorization"]},
            )
            answer = yield asked
            if answer.status_code == httpx.codes.OK:
                request.headers["Prefect-Csrf-Token"] = answer.json()["token"]
                request.headers["Prefect-Csrf-Client"] = "tests"
        yield request
