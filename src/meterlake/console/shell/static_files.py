"""The files that pages load: their addresses name what is in them, so browsers keep them for good."""

import hashlib
from functools import cache
from importlib.resources import files
from typing import Final
from urllib.parse import parse_qs

from starlette.responses import Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

PLACE: Final = "/console/static"
_FOLDER: Final = "static"
_DIGITS: Final = 16
_FOR_GOOD: Final = "public, max-age=31536000, immutable"


def static_address(name: str) -> str:
    """Where a page finds a file; another content has another address.

    Args:
        name: Its path below the folder of static files.
    """
    return f"{PLACE}/{name}?v={_version(name)}"


@cache
def _version(name: str) -> str:
    content = files("meterlake.console").joinpath(_FOLDER, *name.split("/")).read_bytes()
    return hashlib.sha256(content).hexdigest()[:_DIGITS]


class VersionedFiles(StaticFiles):
    """Serves the files; those whose address says what is in them are never asked for again."""

    def __init__(self) -> None:
        super().__init__(packages=[("meterlake.console", _FOLDER)])

    async def get_response(self, path: str, scope: Scope) -> Response:
        """One file. Under any other address browsers ask each time whether they have it."""
        answer = await super().get_response(path, scope)
        asked = parse_qs(scope["query_string"].decode("latin-1")).get("v")
        is_this = asked is not None and asked == [_version(path)]
        answer.headers["Cache-Control"] = _FOR_GOOD if is_this else "no-cache"
        answer.headers["X-Content-Type-Options"] = "nosniff"
        return answer
