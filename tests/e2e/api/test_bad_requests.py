"""Whatever a request holds, the answer is a 4xx that says why, and the server goes on."""

import gzip
import json

import httpx
import pytest

from tests.e2e.api.world import START

JSON = {"Content-Type": "application/json"}
MIB = 1024 * 1024
# Most is refused before a database is asked.
_GOOD = '{"name": "Storage", "code": "good"}'


@pytest.fixture(autouse=True)
def _goes_on(http):
    yield
    assert http.get("/products", params={"pageSize": 1}).status_code == 200


def refused(found, *statuses):
    """The message of a refusal."""
    assert found.status_code in (statuses or (400,)), found.text
    assert found.headers["content-type"].startswith("application/json")
    message = found.json()["message"]
    assert isinstance(message, str)
    assert message
    assert "Traceback" not in message
    assert len(message) < 2000
    return message


BODIES = {
    "nothing": b"",
    "spaces": b"  \n ",
    "no JSON": b"name=Storage",
    "half": b'{"name": "Storage", "code": ',
    "two": b'{"name": "a", "code": "b"} {}',
    "trailing comma": b'{"name": "a", "code": "b",}',
    "comment": b'{"name": "a", /* b */ "code": "b"}',
    "single quotes": b"{'name': 'a', 'code': 'b'}",
    "a list": b"[]",
    "a text": b'"name"',
    "a number": b"12",
    "null": b"null",
    "no UTF-8": b'{"name": "\xff\xfe", "code": "b"}',
    "UTF-16": '{"name": "a", "code": "b", "x": [}'.encode("utf-16"),
    "overlong UTF-8": b'{"name": "\xc0\x80", "code": "b"}',
    "a byte order mark": b"\xef\xbb\xbf[1]",
    "a raw control character": b'{"name": "a\x01b", "code": "b"}',
    "a raw NUL": b'{"name": "a\x00b", "code": "b"}',
    "an escaped NUL": rb'{"name": "a\u0000b", "code": "b"}',
    "NUL in a code": rb'{"name": "a", "code": "b\u0000"}',
    "NUL in the name of a custom field": rb'{"name":"a","code":"b","customFields":{"\u0000":"x"}}',
    "a lone surrogate": rb'{"name": "\ud800", "code": "b"}',
    "a lone low surrogate": rb'{"name": "\udc00x", "code": "b"}',
    "surrogates in the wrong order": rb'{"name": "\udc00\ud800", "code": "b"}',
    "a surrogate in a member": rb'{"name": "a", "code": "b", "customFields": {"\ud800": "x"}}',
    "a member twice": b'{"name": "a", "name": "b", "code": "c"}',
    "a member twice below": b'{"name": "a", "code": "c", "customFields": {"x": 1, "x": 2}}',
    "deep lists": b'{"name": ' + b"[" * 100_000 + b"]" * 100_000 + b', "code": "b"}',
    "deep objects": b'{"x": ' * 5000 + b"1" + b"}" * 5000,
    "deep but unknown": b'{"name": "a", "code": "b", "x": ' + b"[" * 70 + b"]" * 70 + b"}",
    "open lists": b"[" * 1_000_000,
    "NaN": b'{"name": "a", "code": "b", "customFields": {"x": NaN}}',
    "infinity": b'{"name": "a", "code": "b", "customFields": {"x": -Infinity}}',
    "a number for a text": b'{"name": 1, "code": "b"}',
    "a list for a text": b'{"name": ["a"], "code": "b"}',
    "an object for a text": b'{"name": {"a": 1}, "code": "b"}',
    "true for a text": b'{"name": true, "code": "b"}',
    "a text for an object": b'{"name": "a", "code": "b", "customFields": "x"}',
    "a list for an object": b'{"name": "a", "code": "b", "customFields": [1]}',
    "an object for a value": b'{"name": "a", "code": "b", "customFields": {"x": {}}}',
    "an empty name": b'{"name": "", "code": "b"}',
    "a long name": json.dumps({"name": "a" * 201, "code": "b"}).encode(),
    "a long code": json.dumps({"name": "a", "code": "b" * 81}).encode(),
    "a very long code": json.dumps({"name": "a", "code": "b" * MIB}).encode(),
    "a code with a line break": b'{"name": "a", "code": "b\\nc"}',
    "a code with a space at its end": b'{"name": "a", "code": "b "}',
    "nothing required": b"{}",
    "null for what is required": b'{"name": null, "code": "b"}',
}


@pytest.mark.parametrize("what", BODIES)
@pytest.mark.parametrize("method", ["POST", "PUT"])
def test_a_body_that_is_no_good_is_refused(http, world, what, method):
    path = "/products" if method == "POST" else f"/products/{world.product}"
    body = BODIES[what]
    if method == "PUT":
        body = body.replace(b'{"name"', b'{"version": 1, "name"', 1)
    refused(http.request(method, path, content=body, headers=JSON))


@pytest.mark.parametrize(
    "kind",
    [
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "application/xml",
        "nonsense",
        "application/jsonx",
        ";;;",
        "a" * 5000,
    ],
)
def test_another_content_type_is_refused(http, kind):
    refused(http.post("/products", content=_GOOD, headers={"Content-Type": kind}), 415)


@pytest.mark.parametrize("kind", ["application/json; charset=utf-8", "Application/JSON", None])
def test_json_is_read_under_its_names(http, world, kind):
    body = json.dumps({"name": "Storage", "code": world.code()})
    headers = {"Content-Type": kind} if kind else {}
    found = http.post("/products", content=body, headers=headers)
    assert found.status_code == 200, found.text


def test_a_body_that_is_too_large_is_refused(http):
    body = json.dumps({"name": "a", "code": "b", "x": "y" * (10 * MIB)})
    refused(http.post("/products", content=body, headers=JSON), 413)


def test_a_body_of_unknown_length_is_not_read_for_ever(http):
    def endless():
        for _ in range(20):
            yield b" " * MIB

    refused(http.post("/products", content=endless(), headers=JSON), 413)


@pytest.mark.long
def test_a_large_body_of_many_values_is_refused_soon(http):
    fields = {f"field{n}": n for n in range(200_000)}
    body = json.dumps({"name": "a", "code": "b", "customFields": fields})
    refused(http.post("/products", content=body, headers=JSON))


def test_a_gzip_bomb_is_refused(http):
    bomb = gzip.compress(b'{"name": "' + b"a" * (50 * MIB) + b'"}')
    headers = {**JSON, "Content-Encoding": "gzip"}
    refused(http.post("/products", content=bomb, headers=headers), 413)


@pytest.mark.parametrize(
    ("encoding", "body", "status"),
    [
        ("gzip", b"no gzip", 400),
        ("gzip", gzip.compress(_GOOD.encode(), mtime=0)[:-5], 400),
        ("gzip", gzip.compress(_GOOD.encode(), mtime=0) + b"more", 400),
        ("br", b"x", 415),
        ("gzip, gzip", b"x", 415),
    ],
)
def test_an_encoding_that_does_not_fit_is_refused(http, encoding, body, status):
    headers = {**JSON, "Content-Encoding": encoding}
    refused(http.post("/products", content=body, headers=headers), status)


NO_IDS = (
    "1",
    "none",
    "0" * 36,
    "00000000-0000-4000-8000-00000000000",
    "00000000-0000-4000-8000-0000000000000",
    "{00000000-0000-4000-8000-000000000000}",
    "00000000-0000-4000-8000-00000000000g",
    "00000000-0000-4000-8000-000000000000",
    "%00",
    "%ff",
    "%ED%A0%80",
    "%2e%2e%2f",
    "..%2f..%2fetc%2fpasswd",
    "' OR 1=1",
    "a" * 5000,
    "%F0%9F%98%80",
    "%",
    "%zz",
    "%0d%0aX-Injected:%20yes",
)


@pytest.mark.parametrize("id_", NO_IDS)
@pytest.mark.parametrize(
    "path",
    ["products/{}", "serviceusers/{}", "users/{}", "lookuptables/{}/revisions/{}", "events/{}"],
)
@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
def test_an_id_that_is_none_is_not_found(server, bearer, method, path, id_):
    url = f"{server.url}/organizations/{server.org_id}/{path.replace('{}', id_)}"
    body = {"name": "a", "code": "b", "version": 1}
    with httpx.Client(headers=bearer) as client:
        found = client.request(method, url, **({"json": body} if method == "PUT" else {}))
    if method != "GET" and path.startswith(("events", "users")):
        refused(found, 400, 404, 405)
    else:
        refused(found, 404) if method != "PUT" else refused(found, 400, 404)
    assert "x-injected" not in found.headers


@pytest.fixture(scope="module")
def bearer(server):
    return {"Authorization": f"Bearer {server.token()}"}


@pytest.mark.parametrize("id_", ["1", "", "x" * 36, "\ud83d\ude00", 7, None, [], {}, "'", "\x00"])
def test_a_reference_that_is_no_id_is_refused(http, id_):
    body = {"planTemplateId": id_, "name": "Basic", "code": "basic"}
    message = refused(http.post("/plans", content=json.dumps(body), headers=JSON))
    assert "planTemplateId" in message


QUERIES = [
    ("/products", "pageSize=0"),
    ("/products", "pageSize=-1"),
    ("/products", "pageSize=201"),
    ("/accounts", "pageSize=101"),
    ("/users", "pageSize=201"),
    ("/products", "pageSize=1.5"),
    ("/products", "pageSize=1e1"),
    ("/products", "pageSize=ten"),
    ("/products", "pageSize=%D9%A1"),
    ("/products", "pageSize=99999999999999999999999999"),
    ("/products", "pageSize=1&pageSize=2"),
    ("/products", "nextToken=nonsense"),
    ("/products", "nextToken=%00"),
    ("/products", "nextToken=" + "A" * 5000),
    ("/products", "ids=%00"),
    ("/picklists/creditreasons", "archived=maybe"),
    ("/picklists/creditreasons", "archived=1"),
    ("/notifications/configurations", "active=perhaps"),
    ("/balances", "endDateStart=tomorrow"),
    ("/balances", "endDateStart=2026-13-01"),
    ("/balances", "endDateStart=2026-02-30"),
    ("/balances", "endDateEnd=0000-00-00"),
    ("/balances", "endDateEnd=99999-01-01"),
    ("/pricings", "date=2026"),
    ("/pricings", "date=%00"),
    ("/accountplans", "date=x"),
    ("/accountplans", "includeall=x"),
    ("/charges", "billDate=1"),
    ("/accounts/search", "operator=NOT"),
    ("/accounts/search", "fromDocument=-5"),
    ("/accounts/search", "searchQuery=name"),
    ("/accounts/search", "searchQuery=%00:1"),
    ("/events", "pageSize=x"),
]


@pytest.mark.parametrize(("path", "query"), QUERIES, ids=lambda each: each[:40])
def test_a_query_that_is_no_good_is_refused(http, path, query):
    name = query.partition("=")[0]
    assert name in refused(http.get(f"{path}?{query}"))


@pytest.mark.parametrize(
    "query",
    ["colour=red", "pageSize=", "ids=", "ids=,,", "%ff=1", "ids=%ff", "&&&", "=", "a" * 3000],
)
def test_what_nobody_asks_for_is_ignored(http, query):
    assert http.get(f"/products?{query}").status_code == 200


NUMBERS = [
    "1e400",
    "-1e400",
    "1e999999999",
    "1e-999999999",
    "1E99999999999999999999",
    "123456789012345678901234567",
    "1" + "0" * 26,
    "1" + "0" * 5000,
    "0." + "1" * 21,
    "1e-21",
    "NaN",
    "Infinity",
    "-Infinity",
    '"1"',
    "true",
    "[]",
    "{}",
    "0x10",
    "01",
    "+1",
    ".5",
    "1.",
    "1e",
]


@pytest.mark.parametrize("number", NUMBERS, ids=lambda each: each[:30])
def test_a_number_that_is_not_exact_is_refused(http, world, number):
    text = f"""{{"planId": "{world.plan}", "aggregationId": "{world.aggregation}",
        "startDate": "{START}",
        "pricingBands": [{{"lowerLimit": 0, "fixedPrice": 0, "unitPrice": {number}}}]}}"""
    refused(http.post("/pricings", content=text, headers=JSON))


@pytest.mark.parametrize(
    "number", [each for each in NUMBERS if each[0] != '"'], ids=lambda each: each[:30]
)
def test_a_custom_field_that_is_no_exact_number_is_refused(http, world, number):
    text = f'{{"name": "a", "code": "{world.code()}", "customFields": {{"weight": {number}}}}}'
    refused(http.post("/products", content=text, headers=JSON))


@pytest.mark.parametrize(
    "version", ["-1", "1.5", "1e400", '"1"', "true", "9" * 30, "2147483647", "[]", "null"]
)
def test_a_version_that_is_none_is_refused(http, world, version):
    text = f'{{"name": "a", "code": "b", "version": {version}}}'
    message = refused(http.put(f"/products/{world.product}", content=text, headers=JSON))
    assert "version" in message


@pytest.mark.parametrize("version", ["0", "2", "2147483646"])
def test_a_version_that_is_not_the_current_one_is_stale(http, world, version):
    text = f'{{"name": "a", "code": "b", "version": {version}}}'
    found = http.put(f"/products/{world.product}", content=text, headers=JSON)
    refused(found, 409)
    assert found.headers["x-should-retry"] == "false"


@pytest.mark.parametrize(
    "instant",
    [
        "yesterday",
        "2026-13-01T00:00:00Z",
        "2026-02-30T00:00:00Z",
        "2026-01-01T25:00:00Z",
        "0000-01-01T00:00:00Z",
        "10000-01-01T00:00:00Z",
        "2026-01-01T00:00:00+99:00",
        "0001-01-01T00:00:00+14:00",
        "9999-12-31T23:59:59-12:00",
        "2026-01-01T00:00:00Z\u0000",
        "",
        "٢٠٢٦-01-01T00:00:00Z",
    ],
)
def test_an_instant_that_is_none_is_refused(http, world, instant):
    body = {"accountId": world.account, "planId": world.plan, "startDate": instant}
    message = refused(http.post("/accountplans", json=body))
    assert "startDate" in message


@pytest.mark.parametrize(
    "path", ["", "/nothing", "/products/a/b", "/products/search", "/.", "/../x"]
)
def test_a_path_that_leads_nowhere_is_not_found(server, bearer, path):
    url = f"{server.url}/organizations/{server.org_id}{path}"
    refused(httpx.get(url, headers=bearer), 404)


@pytest.mark.parametrize("method", ["PATCH", "OPTIONS", "HEAD", "TRACE", "DELETE"])
def test_another_method_is_refused(server, bearer, method):
    url = f"{server.url}/organizations/{server.org_id}/products"
    found = httpx.request(method, url, headers=bearer)
    assert found.status_code == 405
    assert {each.strip() for each in found.headers["allow"].split(",")} >= {"GET", "POST"}


def test_slashes_may_be_doubled(server, bearer):
    url = f"{server.url}//organizations/{server.org_id}//products"
    assert httpx.get(url, headers=bearer).status_code == 200


TOKENS = {
    "nothing": (b"", None),
    "no JSON": (b"{", "application/json"),
    "a list": (b"[]", "application/json"),
    "another grant": (b'{"grant_type": "password"}', "application/json"),
    "no grant": (b"{}", "application/json"),
    "a number": (b'{"grant_type": 1}', "application/json"),
    "a number as the scope": (
        b'{"grant_type": "client_credentials", "scope": 5}',
        "application/json",
    ),
    "an object as another member": (
        b'{"grant_type": "client_credentials", "code": {}}',
        "application/json",
    ),
    "a form of another grant": (b"grant_type=magic", "application/x-www-form-urlencoded"),
    "bytes": (b"\xff\xfe\x00", "application/x-www-form-urlencoded"),
    "another type": (b"<x/>", "application/xml"),
    "too much": (b"grant_type=" + b"a" * (11 * MIB), "application/x-www-form-urlencoded"),
    "deep": (b"[" * 200_000, "application/json"),
}


@pytest.mark.parametrize("what", TOKENS)
def test_a_token_request_that_is_no_good_is_refused(server, what):
    body, kind = TOKENS[what]
    headers = {"Content-Type": kind} if kind else {}
    found = httpx.post(
        f"{server.url}/oauth/token", content=body, headers=headers, auth=(server.key, server.secret)
    )
    refused(found, 400, 413, 415)


@pytest.mark.parametrize(
    "header",
    [
        "",
        "Basic",
        "Basic !!!",
        "Basic Og==",
        "Basic /w==",
        "Bearer x",
        "Digest x",
        "Basic " + "A" * 9000,
    ],
)
def test_credentials_that_are_no_good_are_refused(server, header):
    body = {"grant_type": "client_credentials"}
    headers = {"Authorization": header} if header else {}
    found = httpx.post(f"{server.url}/oauth/token", json=body, headers=headers)
    refused(found, 400, 401)
    assert found.status_code == 401 or header in {"", "Basic"}
