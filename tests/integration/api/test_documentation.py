import asyncio
import re

import httpx
import pytest
from starlette.applications import Starlette

from meterlake.api.documentation import ROUTES


def get(path):
    async def answer():
        transport = httpx.ASGITransport(Starlette(routes=list(ROUTES)))
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            return await client.get(path)

    return asyncio.run(answer())


def test_an_unknown_file_is_404():
    for path in ("/docs/index.html", "/docs/..%2F__init__.py", "/docs/swagger-ui.css.map"):
        assert get(path).status_code == 404, path


def test_the_page_and_all_it_loads_come_from_this_server():
    page = get("/docs")
    assert page.status_code == 200
    files = re.findall(r'(?:src|href)="([^"]+)"', page.text)
    assert len(files) == 4
    for path in files:
        assert path.startswith("/docs/")
        assert get(path).status_code == 200, path
    start = get("/docs/start.js").text
    assert "/openapi.json" in start
    # `/docs#/Accounts/ListAccounts` opens the operation.
    assert "deepLinking: true" in start


@pytest.mark.long
def test_nothing_inline_and_nothing_foreign_may_run():
    for path in ("/docs", "/docs/start.js", "/docs/swagger-ui-bundle.js", "/openapi.json"):
        policy = get(path).headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
    assert "<script>" not in get("/docs").text
    assert "style=" not in get("/docs").text


def test_the_document_is_json():
    answer = get("/openapi.json")
    assert answer.headers["content-type"] == "application/json"
    assert answer.json()["openapi"].startswith("3.0.")
