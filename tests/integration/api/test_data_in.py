"""What came in, over HTTP: the numbers of the lake, how fresh meters are, receipts page by page."""

import pytest

from tests.homes import ACCOUNTS, EGRESS, HEADER, Home, configure, csv_row
from tests.organizations import Clock
from tests.served import served

FILES = ("a.csv", "b.csv", "c.csv")


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with served(tmp_path_factory.mktemp("data_in") / "home") as found:
        configure(found.organization, meters=[EGRESS], accounts=ACCOUNTS)
        home = Home(found.stores, found.org_id, Clock())
        for name in FILES:
            text = HEADER + csv_row(name) + csv_row(f"{name}-2") + csv_row("", "x")
            home.ingest(name, text, delivery=f"job-{name}")
        home.ingest("again.csv", HEADER + csv_row("a.csv"))
        home.ingest("broken.csv", b"uid,ts\n1,2\n")
        yield found


@pytest.fixture
def http(server):
    with server.http() as client:
        yield client


def answer_of(http, path, **query):
    answer = http.get(f"/measurements/{path}", params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.mark.sees("GetMeasurementsStatus")
def test_the_numbers_of_all_sources_and_meters_are_told(http):
    found = answer_of(http, "status")

    totals = found["totals"]
    assert totals["sources"] == len(FILES) + 2
    assert totals["received"] == totals["accepted"] + totals["repeats"] + totals["rejected"] == 10
    assert found["rejected"] == {"InvalidNumber": len(FILES)}
    [meter] = found["meters"]
    assert (meter["meter"], meter["measurements"]) == ("egress", totals["accepted"])
    assert meter["lastReceived"] >= meter["lastTs"]
    assert found["alerts"] == []


@pytest.mark.sees("ListSources")
def test_sources_are_listed_page_by_page_each_once(http):
    whole = answer_of(http, "sources")["data"]
    rows, token = [], None
    while True:
        found = answer_of(http, "sources", pageSize=2, **({"nextToken": token} if token else {}))
        rows += found["data"]
        if (token := found.get("nextToken")) is None:
            break

    assert rows == whole
    assert sorted(each["name"] for each in rows) == sorted([*FILES, "again.csv", "broken.csv"])
    for each in rows:
        assert each["received"] == each["accepted"] + each["repeats"] + each["rejected"]


def test_sources_are_found_by_name_status_job_and_identity(http):
    [broken] = answer_of(http, "sources", status="failed")["data"]
    assert (broken["name"], broken["reason"]) == ("broken.csv", "MissingHeader")
    [named] = answer_of(http, "sources", name="b.csv")["data"]
    assert named["reasons"] == {"InvalidNumber": 1}
    assert answer_of(http, "sources", source="job-b.csv")["data"] == [named]
    assert answer_of(http, "sources", source=named["identity"][:12])["data"] == [named]
    assert answer_of(http, "sources", until="2000-01-01")["data"] == []
    assert answer_of(http, "sources", source="0" * 36)["data"] == []


@pytest.mark.parametrize(
    "query", [{"nextToken": "x"}, {"pageSize": 101}, {"status": "open"}, {"since": "yesterday"}]
)
def test_strange_queries_are_refused(http, query):
    answer = http.get("/measurements/sources", params=query)

    assert answer.status_code == 400
    assert next(iter(query)) in answer.json()["message"]
