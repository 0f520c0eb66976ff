"""The body of a request: one JSON object, its numbers exact."""

import asyncio
import base64
import binascii
import json
import zlib
from decimal import Decimal
from typing import Any, Final

from starlette.requests import ClientDisconnect, Request
from starlette.types import Message

from meterlake.api.server.protocol import SECONDS, SECONDS_DEFAULT
from meterlake.model.errors import Invalid, TooLarge, TooSlow, Unsupported

BODY_MAX: Final = 10 * 1024 * 1024
_DEPTH_MAX: Final = 64
_JSON: Final = ("application/json", "text/json")


async def document(request: Request, *, may_be_empty: bool = False) -> dict[str, Any]:
    """Read the body as a JSON object.

    Args:
        request: Whose body.
        may_be_empty: No body at all is an object without members.

    Raises:
        Invalid: It is no JSON object, or nests too deeply.
        Unsupported: Its content type is not JSON.
        TooLarge: It is larger than `BODY_MAX`.
    """
    check_type(request.headers.get("content-type", ""))
    data = await content(request, BODY_MAX)
    if not data.strip():
        if may_be_empty:
            return {}
        raise Invalid("body", "", "it must be a JSON object")
    found = parse(data)
    if not isinstance(found, dict):
        raise Invalid("body", _display(data), "it must be a JSON object")
    return found


def parse(data: bytes) -> Any:
    """Decode JSON whose numbers stay exact.

    Raises:
        Invalid: It is no JSON, nests too deeply, or names a member twice.
    """
    try:
        found = json.loads(
            data, parse_float=Decimal, parse_constant=_refuse, object_pairs_hook=_unique
        )
    except (ValueError, ArithmeticError, RecursionError) as error:
        raise Invalid("body", _display(data), f"it must be JSON: {_reason(error)}") from None
    _check_depth(found, data)
    return found


def file_bytes(field: str, text: str) -> bytes:
    """The bytes of a file that stands in a member of a body.

    Raises:
        Invalid: The text is no base64.
    """
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise Invalid(field, text[:80], "it must be the file in base64") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the member {twice[:80]!r} stands twice")
    return found


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is no number")


def _reason(error: Exception) -> str:
    match error:
        case RecursionError():
            return "too many levels"
        case ArithmeticError():
            return "a number is out of bounds"
        case _:
            return str(error)


async def content(request: Request, most: int) -> bytes:
    """The body's bytes, decompressed; never more than `most` in memory.

    Raises:
        TooLarge: There is more.
        TooSlow: It did not come within the time that the settings give it.
        Invalid: It is not the gzip that its header promises.
    """
    data = await _receive(request, most)
    encoding = request.headers.get("content-encoding", "identity").lower()
    if encoding == "identity":
        return data
    if encoding != "gzip":
        raise Unsupported("content encoding", encoding, "gzip or identity")
    return _decompress(data, most)


async def read_ahead(request: Request) -> tuple[bytes, Request]:
    """The body's bytes as they came, and a request that still has them.

    Raises:
        TooLarge: It is larger than `BODY_MAX`.
        TooSlow: It did not come within the time that the settings give it.
    """
    data = await _receive(request, BODY_MAX)
    messages = iter([{"type": "http.request", "body": data, "more_body": False}])

    async def receive() -> Message:
        return next(messages, {"type": "http.disconnect"})

    return data, Request(request.scope, receive)


async def _receive(request: Request, most: int) -> bytes:
    data, seconds = bytearray(), request.scope.get("state", {}).get(SECONDS, SECONDS_DEFAULT)
    try:
        async with asyncio.timeout(seconds):
            async for chunk in request.stream():
                data += chunk
                if len(data) > most:
                    raise TooLarge("body", most)
    except ClientDisconnect:
        raise Invalid("body", _display(bytes(data)), "send it to its end") from None
    except TimeoutError:
        raise TooSlow("body", seconds) from None
    return bytes(data)


def _decompress(data: bytes, most: int) -> bytes:
    unzip = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
    try:
        found = unzip.decompress(data, most + 1)
    except zlib.error:
        raise Invalid(
            "body", _display(data), "it must be gzip, as the header content-encoding says"
        ) from None
    if len(found) > most:
        raise TooLarge("body", most)
    if not unzip.eof or unzip.unused_data:
        raise Invalid("body", _display(data), "it must be one whole gzip stream")
    return found


def check_type(header: str) -> None:
    """Check the header content-type; without one a body counts as JSON.

    Raises:
        Unsupported: It names something else.
    """
    kind = header.partition(";")[0].strip().lower()
    if header and kind not in _JSON and not kind.endswith("+json"):
        raise Unsupported("content type", kind, "application/json")


def _check_depth(value: Any, data: bytes) -> None:
    level = [value]
    for _ in range(_DEPTH_MAX):
        level = [
            item
            for each in level
            if isinstance(each, dict | list)
            for item in (each.values() if isinstance(each, dict) else each)
        ]
        if not level:
            return
    raise Invalid("body", _display(data), f"it must be JSON of at most {_DEPTH_MAX} levels")


def _display(data: bytes) -> str:
    return data[:80].decode("utf-8", "replace")
