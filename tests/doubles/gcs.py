"""A GCS server in this process that keeps what Google promises about generations.

gcp-storage-emulator ignores `ifGenerationMatch` and serves one request at a time, so that no race
could show a fault of ours. Here its routes check the condition under a lock, in threads.
"""

import functools
import http.server
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qs, urlsplit

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from gcp_storage_emulator import server as emulator
from gcp_storage_emulator.exceptions import NotFound
from gcp_storage_emulator.handlers import objects

PAGE = 1000
_LOCK = threading.RLock()
_uploads: dict[str, tuple[str, str, dict[str, list[str]]]] = {}
_Route = Callable[..., None]


@contextmanager
def gcs_server(*buckets: str) -> Iterator[str]:
    """Run the server with some buckets in memory; yields its URL."""
    _make_strict()
    server = emulator.create_server("127.0.0.1", 0, in_memory=True)
    for bucket in buckets:
        emulator.buckets.create_bucket(bucket, server._storage)
    server.start()
    try:
        yield f"http://127.0.0.1:{server._api._httpd.server_port}"
    finally:
        server.stop()


@functools.cache
def _make_strict() -> None:
    emulator.server = SimpleNamespace(HTTPServer=http.server.ThreadingHTTPServer)
    for _, routes in emulator.HANDLERS:
        for method, route in list(routes.items()):
            if route in {objects.insert, objects.delete, objects.patch, objects.upload_partial}:
                routes[method] = _conditional(route)
            elif route in {objects.get, objects.download}:
                routes[method] = _locked(route)
            elif route is objects.rewrite:
                routes[method] = _of_source(route)
            elif route is objects.ls:
                routes[method] = _paged(route)
    objects._make_object_resource = _without_link(objects._make_object_resource)


def _locked(route: _Route) -> _Route:
    def inner(request: Any, response: Any, storage: Any, *args: Any, **kwargs: Any) -> None:
        with _LOCK:
            route(request, response, storage, *args, **kwargs)

    return inner


def _without_link(make: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
    """The emulator's download links are not quoted, and name the host that the writer used."""

    def inner(*args: Any, **kwargs: Any) -> dict[str, Any]:
        resource = make(*args, **kwargs)
        del resource["mediaLink"]
        return resource

    return inner


def _paged(route: _Route) -> _Route:
    """Answer with at most 1,000 names at once, in order, as Google does."""

    def inner(request: Any, response: Any, storage: Any, *args: Any, **kwargs: Any) -> None:
        with _LOCK:
            route(request, response, storage, *args, **kwargs)
        if response.status != HTTPStatus.OK:
            return
        answer = json.loads(response._content)
        after = request.query.get("pageToken", [""])[0]
        items = sorted((item for item in answer["items"] if item["name"] > after), key=_name)
        answer["items"] = items[:PAGE]
        if len(items) > PAGE:
            answer["nextPageToken"] = items[PAGE - 1]["name"]
        response.json(answer)

    return inner


def _name(item: dict[str, str]) -> str:
    return item["name"]


def _conditional(route: _Route) -> _Route:
    def inner(request: Any, response: Any, storage: Any, *args: Any, **kwargs: Any) -> None:
        request.data  # noqa: B018 - read the body before others are made to wait
        with _LOCK:
            bucket, name, query = _target(request)
            if not _holds(storage, bucket, name, query):
                response.status = HTTPStatus.PRECONDITION_FAILED
                message = "At least one of the pre-conditions you specified did not hold."
                response.json({"error": {"code": 412, "message": message}})
                return
            route(request, response, storage, *args, **kwargs)
            location = response._headers.get("Location")
            if location:
                upload = parse_qs(urlsplit(location).query)["upload_id"][0]
                _uploads[upload] = bucket, name, query

    return inner


def _of_source(route: _Route) -> _Route:
    """Copy the generation that is asked for, or refuse."""

    def inner(request: Any, response: Any, storage: Any, *args: Any, **kwargs: Any) -> None:
        with _LOCK:
            wanted = request.query.get("ifSourceGenerationMatch")
            query = {"ifGenerationMatch": wanted} if wanted else {}
            bucket, name = request.params["bucket_name"], request.params["object_id"]
            if _holds(storage, bucket, name, query):
                route(request, response, storage, *args, **kwargs)
            else:
                response.status = HTTPStatus.PRECONDITION_FAILED
                response.json({"error": {"code": 412, "message": "not that generation"}})

    return inner


def _target(request: Any) -> tuple[str, str, dict[str, list[str]]]:
    upload = request.query.get("upload_id")
    if upload:
        return _uploads[upload[0]]
    name = request.query.get("name", [request.params.get("object_id")])[0]
    if name is None:
        name = (request.data.get("meta") or request.data)["name"]
    return request.params["bucket_name"], name, request.query


def _holds(storage: Any, bucket: str, name: str, query: dict[str, list[str]]) -> bool:
    expected = query.get("ifGenerationMatch")
    if expected is None:
        return True
    try:
        generation = int(storage.get_file_obj(bucket, name)["generation"])
    except NotFound:
        generation = 0
    return generation == int(expected[0])


class _Tokens(http.server.BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        answer = json.dumps({"access_token": "t", "token_type": "Bearer", "expires_in": 3600})
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(answer.encode())

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def service_account() -> Iterator[dict[str, str]]:
    """The key file of a new service account, and a server that gives it tokens."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    text = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Tokens) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield {
            "type": "service_account",
            "project_id": "test",
            "private_key_id": "1",
            "private_key": text.decode(),
            "client_email": "signer@test.example",
            "token_uri": f"http://127.0.0.1:{server.server_port}/token",
        }
        server.shutdown()
