"""Rejected rows over HTTP: found page by page, mended, given in again; and receipts of uids."""

import pytest

from tests.homes import ACCOUNTS, EGRESS, HEADER, Home, configure, csv_row
from tests.organizations import Clock
from tests.served import served

ROWS = HEADER + csv_row("good") + csv_row("bad", "NaN") + csv_row("worse", "x") + csv_row("", "y")


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with served(tmp_path_factory.mktemp("rejected") / "home") as found:
        configure(found.organization, meters=[EGRESS], accounts=ACCOUNTS)
        yield found


@pytest.fixture
def http(server):
    with server.http() as client:
        yield client


@pytest.fixture
def rows(server, http, request):
    """The ids of the rejected rows of a file of this test's own, in its order."""
    name = f"{request.node.name}.csv"
    text = ROWS.replace("good", f"good-{name}"[:50]).replace("bad", f"bad-{name}"[:50])
    home = Home(server.stores, server.org_id, Clock())
    assert home.ingest(name, text).rejected == 3
    return [each["id"] for each in listed(http, source=name)["data"]]


def listed(http, **query):
    answer = http.get("/measurements/rejected", params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


def requeued(http, **body):
    answer = http.post("/measurements/rejected/requeue", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def logged(http, id_):
    answer = http.get("/auditlog", params={"kinds": "rejectedRows", "entityId": id_})
    assert answer.status_code == 200, answer.text
    return answer.json()["data"]


def row_of(http, id_):
    answer = http.get(f"/measurements/rejected/{id_}")
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.mark.parametrize(
    "query",
    [
        {"nextToken": "x"},
        {"nextToken": "00000000:1"},
        {"pageSize": 0},
        {"pageSize": 201},
        {"status": "closed"},
        {"since": "yesterday"},
        {"sortBy": "detail"},
        {"sortOrder": "down", "sortBy": "reason"},
    ],
)
def test_strange_queries_are_refused(http, query):
    answer = http.get("/measurements/rejected", params=query)
    assert answer.status_code == 400
    assert next(iter(query)) in answer.json()["message"]


@pytest.mark.parametrize("id_", ["zero", "00", "0000:x", "0000:1.2.3"])
def test_what_is_no_id_is_refused(http, id_):
    assert http.get(f"/measurements/rejected/{id_}").status_code == 400


def test_rows_are_sorted_page_by_page(server, http):
    home = Home(server.stores, server.org_id, Clock())
    for name in ("sorted-b.csv", "sorted-a.csv"):
        bad = (csv_row(f"{name}{each}", meter=meter) for each, meter in enumerate(("", "z", "y")))
        assert home.ingest(name, HEADER + "".join(bad) + csv_row(name, "x")).rejected == 4

    def pages(**query):
        found, token = [], None
        while token or not found:
            answer = listed(http, pageSize=3, nextToken=token, **query)
            found += [row for row in answer["data"] if row["name"].startswith("sorted-")]
            token = answer.get("nextToken")
        return found

    kept = sorted(each["id"] for each in pages())
    for by in ("receivedAt", "reason", "name", "meter"):
        for order in ("ASC", "DESC"):
            rows = pages(sortBy=by, sortOrder=order)
            values = [row[by] for row in rows if row.get(by)]
            assert values == sorted(values, reverse=order == "DESC"), (by, order)
            assert all(row.get(by) for row in rows[: len(values)])
            assert sorted(row["id"] for row in rows) == kept
    token = listed(http, pageSize=1, sortBy="reason")["nextToken"]
    other = http.get("/measurements/rejected", params={"sortBy": "name", "nextToken": token})
    assert other.status_code == 400


def test_a_row_that_was_not_rejected_is_not_there(http, rows):
    assert http.get("/measurements/rejected/00000000:1").status_code == 404
    assert http.get(f"/measurements/rejected/{rows[0].partition(':')[0]}:1").status_code == 404


@pytest.mark.long
def test_rows_are_found_by_filters_page_by_page(http, rows):
    source = row_of(http, rows[0])["name"]
    first = listed(http, source=source, pageSize=2)
    rest = listed(http, source=source, pageSize=2, nextToken=first["nextToken"])

    assert [each["id"] for each in first["data"] + rest["data"]] == rows
    assert "nextToken" not in rest
    assert [each["row"] for each in listed(http, source=source, uid="worse")["data"]] == [4]
    assert listed(http, source=source, reason="UndefinedMeter")["data"] == []
    assert listed(http, source=source, status="requeued")["data"] == []
    assert listed(http, source=source, until="2000-01-01")["data"] == []
    assert len(listed(http, source=source, since="2000-01-01", status="all")["data"]) == 3


@pytest.mark.long
@pytest.mark.sees(
    "ListRejectedRows", "GetRejectedRow", "RequeueRejectedRows", "GetMeasurementReceipt"
)
def test_a_row_is_mended_and_comes_in_once(http, rows):
    found = row_of(http, rows[0])
    assert (found["reason"], found["status"], found["row"]) == ("InvalidNumber", "open", 3)
    mended = {**found["measurement"], "measure": {"gb": 12345678901234567890.25}}
    text = b'{"rows":[{"id":"%s","measurement":{"gb":0}}]}' % rows[0].encode()
    measurement = http.build_request("POST", "", json=mended).content
    exact = measurement.replace(b"1.2345678901234567e+19", b"12345678901234567890.25")
    assert exact != measurement
    body = text.replace(b'{"gb":0}', exact)
    for counts in ({"received": 1, "accepted": 1, "settled": 0}, {"received": 0, "settled": 1}):
        answer = http.post(
            "/measurements/rejected/requeue",
            content=body,
            headers={"content-type": "application/json"},
        )
        assert answer.status_code == 200, answer.text
        assert counts.items() <= answer.json().items()

    assert row_of(http, rows[0])["status"] == "requeued"
    assert [each["requeued"] for each in row_of(http, rows[0])["history"]] == [False, True]
    assert row_of(http, rows[0])["history"][1]["author"].startswith("SERVICE_USER_")
    receipt = http.get("/measurements/receipt", params={"uid": found["uid"]}).json()
    assert (receipt["status"], receipt["requeuedFrom"]) == ("accepted", rows[0])
    # The log of who did what has it once, as it came in once.
    [act] = logged(http, rows[0])
    assert (act["action"], act["by"][:13]) == ("edited", "SERVICE_USER_")
    assert act["name"] == f"row 3 of {found['name']}"


@pytest.mark.long
def test_rows_are_given_in_again_as_they_are(http, rows):
    source = row_of(http, rows[0])["name"]
    done = requeued(http, source=source, uid="worse")

    assert (done["received"], done["rejected"], done["accepted"]) == (1, 1, 0)
    assert row_of(http, rows[1])["tries"] == 1
    assert requeued(http, rows=[{"id": rows[2]}])["rejected"] == 1


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ({}, "required"),
        ({"reasn": "InvalidNumber"}, "required"),
        ({"rows": []}, "rows"),
        ({"rows": [{"id": "00:1"}]}, "id"),
        ({"rows": [{"id": 7}]}, "rows[0].id"),
        ({"rows": [{"id": "0000:1", "measurement": [1]}]}, "rows[0].measurement"),
        ({"rows": [{"id": "0000:1"}], "uid": "a"}, "give them alone"),
        ({"since": "yesterday"}, "since"),
    ],
)
def test_what_says_not_which_rows_is_refused(http, body, told):
    answer = http.post("/measurements/rejected/requeue", json=body)
    assert answer.status_code == 400
    assert told in answer.json()["message"]


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b'{"uid":"a","uid":"b"}', b"\xff", b"[" * 9999])
def test_a_body_that_is_no_object_is_refused(http, body):
    answer = http.post("/measurements/rejected/requeue", content=body)
    assert answer.status_code == 400


@pytest.mark.long
def test_a_uid_tells_where_it_was_first_seen(http, rows):
    source = row_of(http, rows[0])["name"]
    found = http.get("/measurements/receipt", params={"uid": f"good-{source}"[:50]}).json()

    assert (found["status"], found["name"], found["row"]) == ("accepted", source, 2)
    assert found["account"] == "acme"
    unknown = http.get("/measurements/receipt", params={"uid": "a/b,ü"}).json()
    assert (unknown["uid"], unknown["status"]) == ("a/b,ü", "unknown")
    assert http.get("/measurements/receipt").status_code == 400


@pytest.mark.long
@pytest.mark.sees("DismissRejectedRows", "ReopenRejectedRows")
def test_a_row_is_dismissed_with_a_reason_and_reopened(http, rows):
    source = row_of(http, rows[0])["name"]

    def decide(verb, **body):
        answer = http.post(f"/measurements/rejected/{verb}", json=body)
        assert answer.status_code == 200, answer.text
        return answer.json()

    assert decide("dismiss", rows=rows[:1], because="a trial") == {"rows": 1, "settled": 0}
    assert [each["action"] for each in logged(http, rows[0])] == ["dismissed"]
    assert decide("dismiss", source=source, because="all of it") == {"rows": 2, "settled": 0}
    assert decide("dismiss", rows=rows, because="again") == {"rows": 0, "settled": 3}
    assert listed(http, source=source)["data"] == []
    assert [each["id"] for each in listed(http, source=source, status="dismissed")["data"]] == rows
    shown = row_of(http, rows[0])
    assert (shown["status"], shown["because"]) == ("dismissed", "a trial")
    assert shown["dismissedBy"] == shown["decisions"][0]["author"]
    assert requeued(http, source=source)["received"] == 0
    assert requeued(http, rows=[{"id": rows[0]}])["rejected"] == 1
    assert row_of(http, rows[0])["status"] == "open"
    assert decide("reopen", source=source) == {"rows": 2, "settled": 0}
    assert len(listed(http, source=source)["data"]) == 3


@pytest.mark.parametrize(
    ("verb", "body", "told"),
    [
        ("dismiss", {"uid": "a"}, "because"),
        ("dismiss", {"uid": "a", "because": " "}, "because"),
        ("dismiss", {"because": "a trial"}, "ids, or a filter"),
        ("dismiss", {"because": "a trial", "rows": ["x"]}, "id"),
        ("dismiss", {"because": "a trial", "rows": ["0000:1"], "uid": "a"}, "without a filter"),
        ("reopen", {}, "ids, or a filter"),
    ],
)
def test_a_decision_that_says_too_little_is_refused(http, verb, body, told):
    answer = http.post(f"/measurements/rejected/{verb}", json=body)
    assert answer.status_code == 400
    assert told in answer.json()["message"]
