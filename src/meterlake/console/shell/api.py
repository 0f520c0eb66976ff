"""The public API as the pages of the console call it: within the process, by the rules of HTTP."""

import json
import re
from collections.abc import Iterable, Mapping
from decimal import Decimal
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import urlsplit

from httpx import ASGITransport, AsyncClient, InvalidURL, Response
from starlette.types import ASGIApp

from meterlake.model.values import wire

_FAILED: Final = 400
_FILE_HEADERS: Final = ("content-type", "content-disposition", "content-security-policy")
_NOT_FOUND: Final = 404
# What ends a path, and what no address has.
_NOT_OF_PATHS: Final = re.compile(r"[?#\x00-\x20\x7f]")
# How long a store of objects elsewhere may say nothing.
_SECONDS: Final = 60
# The most that a page lists where the API has no end: more is behind a link.
EVERY_MAX: Final = 1_000
_PAGE: Final = 100


class ApiRefusalError(Exception):
    """The API refused a call.

    Attributes:
        status: The HTTP status.
        reason: The API's own words.
    """

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


class ApiClient:
    """Calls operations of one organization with a person's token; close it after the page.

    Numbers of answers are `Decimal`, digit by digit as the API wrote them.
    """

    def __init__(
        self, app: ASGIApp, place: str, token: str | None, address: str, request_id: str = ""
    ) -> None:
        """Call an application.

        Args:
            app: The application with the API.
            place: Where the paths of calls begin, as the person reaches it: links in answers begin
                with its origin.
            token: The person's access token; None where the place says who asks.
            address: Where the person sits, for the limits of requests.
            request_id: The id of the request that the calls are for; each has its own if empty.
        """
        self._origin = "{0.scheme}://{0.netloc}/".format(urlsplit(place))
        self._client = AsyncClient(
            transport=ASGITransport(app, client=(address, 0)),
            base_url=place,
            headers={
                **({} if token is None else {"Authorization": f"Bearer {token}"}),
                **({"X-Request-Id": request_id} if request_id else {}),
            },
        )

    async def __aenter__(self) -> Self:
        """Be ready for calls."""
        await self._client.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Let go of what calls held."""
        await self._client.__aexit__(kind, error, trace)

    async def get(self, path: str, /, **query: Any) -> Any:
        """The answer of a GET; parameters that are None are left out.

        Raises:
            ApiRefusalError: The API refuses it.
        """
        return _content(await self._call("GET", path, params=_parameters(query)))

    async def find(self, path: str, /, **query: Any) -> Any:
        """As `get`; None if the API refuses to show it or has it not."""
        try:
            return await self.get(path, **query)
        except ApiRefusalError as refusal:
            if refusal.status not in {403, 404}:
                raise
            return None

    async def every(self, path: str, /, **query: Any) -> list[Any]:
        """The rows of all pages of a list, the first thousand; none if the API shows none."""
        rows: list[Any] = []
        token = None
        while len(rows) < EVERY_MAX:
            answer = await self.find(path, pageSize=_PAGE, nextToken=token, **query)
            if answer is None:
                break
            rows += answer["data"]
            token = answer.get("nextToken")
            if not token:
                break
        return rows[:EVERY_MAX]

    async def by_id(self, path: str, ids: Iterable[str | None]) -> dict[str, Any]:
        """The rows of a list that have some ids, by id; without ids nobody is asked."""
        wanted = sorted({each for each in ids if each})
        found: dict[str, Any] = {}
        for start in range(0, len(wanted), _PAGE):
            some = ",".join(wanted[start : start + _PAGE])
            found |= {each["id"]: each for each in await self.every(path, ids=some)}
        return found

    async def send(self, method: str, path: str, body: Any = None, /, **query: Any) -> Any:
        """The answer of a call that changes something.

        Raises:
            ApiRefusalError: The API refuses it; nothing was changed.
        """
        content = None if body is None else wire.dumps(body)
        headers = {} if body is None else {"Content-Type": "application/json"}
        return _content(
            await self._call(
                method, path, params=_parameters(query), content=content, headers=headers
            )
        )

    async def fetch(self, path: str, /, **query: Any) -> Response:
        """A file that an operation answers with.

        Raises:
            ApiRefusalError: The API refuses it.
        """
        return _file(await self._call("GET", path, params=_parameters(query)))

    async def fetch_made(self, path: str, body: Any, /) -> Response:
        """A file that an operation makes of what it is sent.

        Raises:
            ApiRefusalError: The API refuses it.
        """
        headers = {"Content-Type": "application/json"}
        return _file(await self._call("POST", path, content=wire.dumps(body), headers=headers))

    async def _call(self, method: str, path: str, **content: Any) -> Response:
        """Call an operation. Parts of its path may come from an address or a form.

        Raises:
            ApiRefusalError: A part would begin a query or a fragment, or nothing has such an address.
        """
        nothing = ApiRefusalError(
            _NOT_FOUND, "There is nothing at this address. Go there by a link."
        )
        if _NOT_OF_PATHS.search(path):
            raise nothing
        try:
            return await self._client.request(method, path, **content)
        except InvalidURL:
            raise nothing from None

    async def put(self, url: str, headers: Mapping[str, str], content: bytes) -> None:
        """Send a file to a signed URL: here, or at the store of objects that the URL names.

        Raises:
            ApiRefusalError: It was refused.
        """
        if url.startswith(self._origin):
            answer = await self._client.put(url, headers=headers, content=content)
        else:
            async with AsyncClient(timeout=_SECONDS) as client:
                answer = await client.put(url, headers=headers, content=content)
        if answer.status_code >= _FAILED:
            reason = f"the store of files refused it ({answer.status_code}); send it again"
            is_ours = answer.headers.get("content-type", "").startswith("application/json")
            raise ApiRefusalError(
                answer.status_code, answer.json()["message"] if is_ours else reason
            )


def rows_of(answer: Mapping[str, Any] | None) -> list[Any]:
    """The rows of a list; none of what `find` was refused."""
    return [] if answer is None else list(answer["data"])


def file_headers(answer: Response) -> dict[str, str]:
    """The headers of a file that the file's page keeps."""
    return {name: answer.headers[name] for name in _FILE_HEADERS if name in answer.headers}


def _parameters(query: Mapping[str, Any]) -> dict[str, str]:
    texts = {True: "true", False: "false"}
    return {
        name: texts[value] if isinstance(value, bool) else str(value)
        for name, value in query.items()
        if value is not None
    }


def _file(answer: Response) -> Response:
    if answer.status_code >= _FAILED:
        _content(answer)
    return answer


def _content(answer: Response) -> Any:
    found = (
        json.loads(answer.text, parse_float=Decimal, parse_int=Decimal) if answer.content else {}
    )
    if answer.status_code >= _FAILED:
        raise ApiRefusalError(answer.status_code, found.get("message") or answer.reason_phrase)
    return found
