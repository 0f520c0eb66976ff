"""Submit Measurements: its shape, its limits, and the way into the lake."""

import gzip
import json
import time
from decimal import Decimal

import httpx
import m3ter
import pytest

from meterlake.api import submit
from meterlake.api.routes import BY_ID
from meterlake.pipeline.ingest.segments import ingest_segments
from tests.homes import CALLS, EGRESS, configure, wire_row
from tests.served import served

ROW = {"meter": "egress", "account": "acme", "ts": "2026-09-03T10:00:00Z"}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    home = tmp_path_factory.mktemp("submit") / "home"
    with served(home, segment_seconds=0.05) as running:
        configure(running.organization, meters=[EGRESS, CALLS])
        yield running


@pytest.fixture(scope="module")
def http(server):
    with server.http() as client:
        yield client


def arrive(server):
    """Ingest what was submitted, as the worker does; nothing is left open then."""
    folder = server.organization.segment_folder
    receipts = []
    while any(folder.open.iterdir()) or folder.waiting():
        receipts += ingest_segments(server.organization)
        time.sleep(0.02)
    return receipts


def uids(server, like):
    sql = "SELECT uid FROM lake.uid_index WHERE uid LIKE ? ORDER BY uid"
    with server.organization.lake.reader() as connection:
        return [uid for (uid,) in connection.execute(sql, [like]).fetchall()]


def post(http, body, **headers):
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return http.post("/measurements", content=content, headers=headers)


def of_size(size):
    """A batch of so many bytes."""
    row = wire_row("size", note="")
    empty = len(json.dumps({"measurements": [row]}))
    row["note"] = "x" * (size - empty)
    data = json.dumps({"measurements": [row]}).encode()
    assert len(data) == size
    return data


@pytest.mark.sees("SubmitMeasurements")
def test_what_is_submitted_is_stored_exactly_and_once(server, http):
    body = b"""{"measurements": [
        {"meter": "egress", "account": "acme", "uid": "exact", "ts": "2026-09-03T10:00:00.123456789+02:00",
         "measure": {"gb": 12345678901.123456}, "where": {"region": "eu"}, "unknown": {"a": [1]}},
        {"meter": "egress", "account": "new", "ts": "2026-09-03 10:00", "ets": null,
         "measure": {"gb": -1e3}, "where": {"region": "\\u00fc"}}
    ], "more": true}"""
    assert post(http, body).json() == {"result": "accepted"}
    assert post(http, body).json() == {"result": "accepted"}
    receipts = arrive(server)

    # One has a uid, the other one is another measurement each time.
    assert sum(each.accepted for each in receipts) == 3
    assert sum(each.repeats for each in receipts) == 1
    meter = server.sdk().meters.list(codes=["egress"]).data[0].id
    with server.organization.lake.reader() as connection:
        rows = connection.execute(
            f'SELECT "measure.gb", ts::VARCHAR FROM lake."m_{meter}"'
            ' WHERE "measure.gb" NOT IN (1, 1.5) ORDER BY 1'
        ).fetchall()
    assert rows == [
        (Decimal(-1000), "2026-09-03 10:00:00"),
        (Decimal(-1000), "2026-09-03 10:00:00"),
        (Decimal("12345678901.123456"), "2026-09-03 08:00:00.123456"),
    ]


def test_what_breaks_a_rule_of_the_meter_is_accepted_and_then_rejected(server, http):
    body = {"measurements": [wire_row("right"), wire_row("none", meter="nothing")]}
    assert post(http, body).status_code == httpx.codes.OK
    [receipt] = arrive(server)

    assert (receipt.accepted, receipt.rejected) == (1, 1)
    assert receipt.sample[0].row == 2
    folder = server.organization.segment_folder
    assert folder.waiting() == []
    assert list((folder.lake / "sources").rglob(receipt.delivery.name))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"meter": None}, "measurements[1].meter: null is not allowed: it must be a text"),
        ({"meter": ""}, "measurements[1].meter: '' is not allowed: it must be a code"),
        ({"account": "x" * 81}, "measurements[1].account: "),
        (
            {"account": " acme"},
            "measurements[1].account: ' acme' is not allowed: it must be a code",
        ),
        ({"account": 7}, "measurements[1].account: 7 is not allowed: it must be a text"),
        ({"ts": "2026-02-30T00:00:00Z"}, "measurements[1].ts: '2026-02-30T00:00:00Z' is not"),
        ({"ts": ROW["ts"] + "\n" + ROW["ts"]}, "measurements[1].ts: "),
        (
            {"ts": "2026-09-03"},
            "measurements[1].ts: '2026-09-03' is not allowed: it must be an ISO 8601",
        ),
        ({"ets": "soon"}, "measurements[1].ets: 'soon' is not allowed: it must be an ISO 8601"),
        ({"uid": "x" * 51}, "measurements[1].uid: "),
        ({"uid": ""}, "measurements[1].uid: '' is not allowed: it must have 1 to 50 characters"),
        ({"uid": "a\x00"}, "measurements[1].uid: "),
        ({"uid": 5}, "measurements[1].uid: 5 is not allowed: it must be a text"),
        ({"who": []}, "measurements[1].who: [] is not allowed: it must be a JSON object"),
        ({"who": {"a": "b", "n": 1}}, "measurements[1].who.n: 1 is not allowed: it must be a text"),
        (
            {"measure": {"a": 1, "n": "1"}},
            "measurements[1].measure.n: '1' is not allowed: it must be a number",
        ),
        ({"cost": {"n": True}}, "measurements[1].cost.n: true is not allowed: it must be a number"),
        (
            {"income": {"n": None}},
            "measurements[1].income.n: null is not allowed: it must be a number",
        ),
    ],
)
def test_a_wrong_shape_names_measurement_and_field(http, change, said):
    answer = post(http, {"measurements": [ROW, ROW | change]})

    assert answer.status_code == httpx.codes.BAD_REQUEST
    assert answer.json()["message"].startswith(said)


@pytest.mark.parametrize("name", ["meter", "account", "ts"])
def test_what_is_required_is_named(http, name):
    row = {key: value for key, value in ROW.items() if key != name}
    answer = post(http, {"measurements": [ROW, ROW, row]})

    assert answer.status_code == httpx.codes.BAD_REQUEST
    assert answer.json()["message"] == f"measurements[2].{name} is required"


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"{}", "measurements is required"),
        (b"[]", "body: [] is not allowed: it must be a JSON object"),
        (b'{"measurements": {}}', "measurements: {} is not allowed: it must be an array"),
        (b'{"measurements": [1]}', "measurements[0]: 1 is not allowed: it must be a JSON object"),
        (
            b'{"measurements": []}',
            "measurements: '0 measurements' is not allowed: it must be 1 to 1000",
        ),
        (b"", "body: '' is not allowed: it must be JSON: "),
        (b'{"measurements": [', "body: "),
        (b'{"measurements": [], "a": ' + b"[" * 200_000, "body: "),
        (b'{"measurements": [], "a": "\xff"}', "body: "),
        (b'{"measurements": [], "a": "x\ny"}', "body: "),
    ],
)
def test_what_is_no_batch_is_refused(http, body, said):
    answer = post(http, body)

    assert answer.status_code == httpx.codes.BAD_REQUEST
    assert answer.json()["message"].startswith(said)


@pytest.mark.parametrize("number", ["1e400", "-1e400", "1e999999999", "-1e999999999"])
def test_a_number_out_of_all_range_is_named(http, number):
    row = json.dumps(ROW)[:-1] + f', "measure": {{"a": 1, "n": {number}}}}}'
    answer = post(http, b'{"measurements": [%s]}' % row.encode())

    shown = number.replace("e", "E+")
    assert answer.status_code == httpx.codes.BAD_REQUEST
    assert answer.json()["message"].startswith(f"measurements[0].measure.n: {shown} is not allowed")


def test_the_limits_are_exact(server, http):
    one = [ROW | {"uid": f"limit-{number}"} for number in range(1001)]
    assert post(http, {"measurements": one[:1000]}).status_code == httpx.codes.OK
    answer = post(http, {"measurements": one})
    assert answer.status_code == httpx.codes.BAD_REQUEST
    assert "1001 measurements" in answer.json()["message"]
    edge = ROW | {"account": "x" * 80, "uid": "é" * 50}
    assert post(http, {"measurements": [edge]}).status_code == httpx.codes.OK
    arrive(server)


@pytest.mark.parametrize("zipped", [False, True])
def test_a_payload_must_be_under_512_000_bytes_decompressed(server, http, zipped):
    headers = {"content-encoding": "gzip"} if zipped else {}
    pack = gzip.compress if zipped else bytes
    assert post(http, pack(of_size(511_999)), **headers).status_code == httpx.codes.OK
    answer = post(http, pack(of_size(512_000)), **headers)

    assert answer.status_code == httpx.codes.FORBIDDEN
    assert answer.json() == {
        "message": "a payload must be under 512,000 bytes; send it in several requests"
    }
    arrive(server)


def test_another_content_type_is_refused(http):
    answer = post(http, {"measurements": [ROW]}, **{"content-type": "text/csv"})

    assert answer.status_code == httpx.codes.UNSUPPORTED_MEDIA_TYPE


def test_too_much_that_waits_is_429_and_drops_nothing(tmp_path):
    with served(tmp_path / "home", segment_bytes=1, segment_backlog=0) as server:
        configure(server.organization, meters=[EGRESS])
        with server.http() as http:
            codes = []
            for number in range(60):
                answer = post(http, {"measurements": [wire_row(f"late-{number}")]})
                codes.append(answer.status_code)
                if answer.status_code == httpx.codes.TOO_MANY_REQUESTS:
                    break
                time.sleep(0.05)
            assert answer.headers["retry-after"] == "1"
            arrive(server)
            time.sleep(0.3)
            assert post(http, {"measurements": [wire_row("later")]}).status_code == 200
        accepted = codes.count(httpx.codes.OK)
        assert len(uids(server, "late-%")) == accepted


def test_who_submits_needs_a_token_and_the_permission_to_upload(server):
    operation = BY_ID["SubmitMeasurements"]
    url = f"{server.url}/organizations/{server.org_id}/measurements"
    anyone = httpx.post(url, json={"measurements": [ROW]})

    assert anyone.status_code == httpx.codes.UNAUTHORIZED
    assert (operation.action, operation.resource) == ("measurements:upload", "measurements")
    assert operation.limit == "ingest"


def key_of_a_service_user(server, action):
    """Its access key; a policy allows it one action on everything."""
    sdk = server.sdk()
    with server.http() as http:
        robot = http.post("/serviceusers", json={"name": f"may {action}"}).json()["id"]
        key = http.post(f"/serviceusers/{robot}/accesskeys", json={}).json()
    statement = {"effect": "ALLOW", "action": [action], "resource": ["*"]}
    made = sdk.permission_policies.create(name=action, permission_policy=[statement])
    sdk.permission_policies.add_to_service_user(permission_policy_id=made.id, principal_id=robot)
    return {"api_key": key["id"], "api_secret": key["apiSecret"]}


def test_a_service_user_submits_only_with_the_permission_to_upload(server):
    rows = [wire_row("by a robot")]
    keys = [
        key_of_a_service_user(server, each) for each in ("config:create", "measurements:upload")
    ]
    reader, uploader = (server.sdk(**key) for key in keys)

    with pytest.raises(m3ter.PermissionDeniedError):
        reader.usage.submit(measurements=rows)
    assert uploader.usage.submit(measurements=rows).result == "accepted"
    assert sum(each.accepted for each in arrive(server)) == 1


@pytest.mark.long
@pytest.mark.parametrize("count", [5_000, pytest.param(100_000, marks=pytest.mark.slow)])
def test_the_sdk_submits(server, count):
    usage = server.sdk().usage
    assert usage.submit(measurements=[wire_row("sdk-one")]).result == "accepted"
    rows = [wire_row(f"many-{number:06}") for number in range(count)]
    results = list(usage.submit_all(measurements=rows))
    arrive(server)

    assert [each.result for each in results] == ["accepted"] * (count // 1000)
    assert uids(server, "sdk-%") == ["sdk-one"]
    assert uids(server, "many-%") == [row["uid"] for row in rows]
    with pytest.raises(m3ter.BadRequestError, match="1001 measurements"):
        usage.submit(measurements=[wire_row(str(number)) for number in range(1001)])


def test_white_space_of_a_body_is_no_line_break():
    body = b'{"measurements": [\r\n' + json.dumps(ROW, indent=2).encode() + b"\n]}"
    [text] = submit.texts(body)

    assert b"\n" not in bytes(text)
    assert json.loads(bytes(text)) == ROW
