"""The API's document, and a page to read and try it that needs no network but this server."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import Route
from swagger_ui_bundle import swagger_ui_path

from meterlake.api import openapi
from meterlake.api.server.answers import message

DOCUMENT: Final = "/openapi.json"
PAGE: Final = "/docs"

_FOLDER: Final = Path(swagger_ui_path)
_ASSETS: Final = {
    "swagger-ui.css": "text/css",
    "swagger-ui-bundle.js": "text/javascript",
    "favicon-32x32.png": "image/png",
}
# Scripts, styles and requests only from and to this server; nothing inline, nobody frames it.
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS: Final = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}
_HTML: Final = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>meterlake API</title>
<link rel="stylesheet" href="/docs/swagger-ui.css">
<link rel="icon" type="image/png" href="/docs/favicon-32x32.png">
</head>
<body>
<div id="swagger-ui"></div>
<script src="/docs/swagger-ui-bundle.js"></script>
<script src="/docs/start.js"></script>
</body>
</html>
"""
_START: Final = f"""SwaggerUIBundle({{
  url: "{DOCUMENT}",
  dom_id: "#swagger-ui",
  docExpansion: "none",
  deepLinking: true,
  filter: true,
  validatorUrl: null,
}});
"""


async def _document(_: Request) -> Response:
    return Response(openapi.encode_document(), media_type="application/json", headers=_HEADERS)


def _text(content: str, media_type: str) -> Callable[[Request], Awaitable[Response]]:
    async def answer(_: Request) -> Response:
        return Response(content, media_type=media_type, headers=_HEADERS)

    return answer


async def _asset(request: Request) -> Response:
    name = request.path_params["name"]
    if name not in _ASSETS:
        return message(404, f"there is no {request.url.path[:200]}")
    return FileResponse(_FOLDER / name, media_type=_ASSETS[name], headers=_HEADERS)


ROUTES: Final = (
    Route(DOCUMENT, _document, methods=["GET"], name="GetOpenApi"),
    Route(PAGE, _text(_HTML, "text/html"), methods=["GET"], name="GetDocumentation"),
    Route(
        f"{PAGE}/start.js",
        _text(_START, "text/javascript"),
        methods=["GET"],
        name="GetDocumentation",
    ),
    Route(f"{PAGE}/{{name}}", _asset, methods=["GET"], name="GetDocumentation"),
)
