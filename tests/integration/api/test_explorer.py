"""The Data Explorer over HTTP: what is refused, what is answered, how often one may ask."""

import re
from decimal import Decimal
from pathlib import Path

import httpx
import pyarrow.parquet as pq
import pytest

from meterlake.model.catalog.catalog import Meter
from meterlake.model.customers.recurring_period import PeriodSpec
from meterlake.model.values import wire
from meterlake.model.values.period import Month
from meterlake.pipeline.billing.jobs.quantities import QUANTITIES
from meterlake.pipeline.explorer.answers import parquet
from meterlake.pipeline.jobs.waiting import run_round
from meterlake.pipeline.usage.aggregate import aggregate
from meterlake.worker.flow_runs import Executor
from tests.bills import aggregation
from tests.homes import ACCOUNTS, CALLS, EGRESS, HEADER, Home, configure, csv_row
from tests.organizations import Clock
from tests.served import served

DOCUMENT = Path(__file__).parents[3] / "docs" / "explorer.md"
JSON = {"content-type": "application/json"}
NOWHERE = "00000000-0000-4000-8000-000000000000"
SEPTEMBER = {"startDate": "2026-09-01T00:00:00Z", "endDate": "2026-10-01T00:00:00Z"}
ROWS = HEADER + (
    "egress,acme,1,2026-09-01T00:00:00Z,0.1,eu\n"
    "egress,acme,2,2026-09-01T23:59:59Z,0.2,us\n"
    "egress,bolt,3,2026-09-30T12:00:00Z,9007199254740993,us\n"
    "egress,bolt,4,2026-10-01T00:00:00Z,1,eu\n"
)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with served(tmp_path_factory.mktemp("explorer") / "home", limit_explorer=False) as found:
        configure(found.organization, meters=[EGRESS, CALLS], accounts=ACCOUNTS)
        Home(found.stores, found.org_id, Clock()).ingest("a.csv", ROWS)
        yield found


@pytest.fixture(scope="module")
def http(server):
    with server.http() as client:
        yield client


@pytest.fixture(scope="module")
def meter(server):
    with server.organization.reading() as reader:
        return reader.find(Meter, "egress").id


def fold(meter, function="SUM", field="gb", type_="MEASURE"):
    return {"meterId": meter, "fieldCode": field, "fieldType": type_, "function": function}


def asked(http, **body):
    answer = http.post("/usage/query", json={**SEPTEMBER, **body})
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/json"
    return answer.json()


def refusal(http, body):
    answer = http.post("/usage/query", json=body)
    assert answer.status_code == 400, answer.text
    return answer.json()["message"]


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"startDate": None}, "startDate is required"),
        ({"endDate": None}, "endDate is required"),
        ({"endDate": SEPTEMBER["startDate"]}, "endDate"),
        ({"startDate": "soon"}, "startDate"),
        ({"limit": 0}, "limit"),
        ({"limit": 20_001}, "limit"),
        ({"meterIds": [NOWHERE]}, "existing Meter"),
        ({"accountIds": [NOWHERE]}, "existing Account"),
        ({"groups": [{"groupType": "ACCOUNT"}]}, "aggregations is required"),
        ({"groups": [{"groupType": "DIMENSION", "fieldCode": "region"}]}, "aggregations"),
        ({"aggregations": [fold(NOWHERE)]}, "existing Meter"),
    ],
)
def test_a_wrong_question_is_refused(http, changes, sentence):
    assert sentence in refusal(http, {**SEPTEMBER, **changes})


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"function": "UNIQUE"}, "a MEASURE has no UNIQUE"),
        ({"field": "region"}, "numbers for a MEASURE"),
        ({"field": "region", "type_": "DIMENSION"}, "COUNT and UNIQUE"),
        ({"field": "nothing"}, "a field of meter"),
        ({"function": "MEDIAN"}, "function"),
    ],
)
def test_what_does_not_fit_the_field_is_refused(http, meter, given, sentence):
    assert sentence in refusal(http, {**SEPTEMBER, "aggregations": [fold(meter, **given)]})


@pytest.mark.sees("PostUsageDataQuery")
def test_raw_rows_are_newest_first_and_exact(http, meter):
    found = asked(http)

    assert found["hasMoreData"] is False
    assert [row["uid"] for row in found["data"]] == ["3", "2", "1"]
    assert found["data"][1] == {
        "meterId": meter,
        "meter": "egress",
        "uid": "2",
        "accountId": found["data"][1]["accountId"],
        "account": "acme",
        "ts": "2026-09-01T23:59:59Z",
        "ets": None,
        "receivedAt": "2026-10-01T00:00:00Z",
        "measure.gb": 0.2,
        "where.region": "us",
    }


def test_numbers_keep_every_digit(http, meter):
    body = {**SEPTEMBER, "aggregations": [fold(meter)]}
    text = http.post("/usage/query", json=body).text
    assert '"measure.gb.SUM":9007199254740993.3}' in text


def test_a_limit_cuts_and_says_so(http, meter):
    assert [row["uid"] for row in asked(http, limit=3)["data"]] == ["3", "2", "1"]
    assert asked(http, limit=3)["hasMoreData"] is False
    cut = asked(http, limit=2)
    assert ([row["uid"] for row in cut["data"]], cut["hasMoreData"]) == (["3", "2"], True)
    groups = [{"groupType": "TIME", "frequency": "DAY"}]
    cut = asked(http, limit=1, aggregations=[fold(meter)], groups=groups)
    assert [row["day"] for row in cut["data"]] == ["2026-09-30T00:00:00Z"]
    assert cut["hasMoreData"] is True


@pytest.mark.sees("QueryUsageSavedQuery")
def test_a_saved_question_is_asked_again(http, meter):
    body = {
        "name": "September",
        "usageQuery": {**SEPTEMBER, "aggregations": [fold(meter, "COUNT")]},
    }
    saved = http.post("/usage/savedqueries", json=body)
    assert saved.status_code == 200, saved.text
    found = http.post(f"/usage/savedqueries/{saved.json()['id']}/query")
    assert found.json() == {
        "data": [{"meterId": meter, "meter": "egress", "measure.gb.COUNT": 3}],
        "hasMoreData": False,
    }
    assert http.post(f"/usage/savedqueries/{NOWHERE}/query").status_code == 404
    assert http.post("/usage/savedqueries/x/query").status_code == 404


def test_a_saved_question_of_a_relative_time_is_asked(http):
    for word in ("TODAY", "LAST_12_HOURS", "PREVIOUS_QUARTER"):
        body = {"name": word, "usageQuery": {"timePeriod": word}}
        id_ = http.post("/usage/savedqueries", json=body).json()["id"]
        found = http.post(f"/usage/savedqueries/{id_}/query")
        assert found.status_code == 200, found.text


@pytest.mark.long
def test_whoever_asks_too_often_waits(tmp_path):
    with served(tmp_path / "home") as found, found.http() as client:
        answers = [client.post("/usage/query", json=SEPTEMBER) for _ in range(30)]
        refused = [each for each in answers if each.status_code == 429]
        assert refused
        assert all(int(each.headers["retry-after"]) >= 1 for each in refused)
        assert {each.status_code for each in answers[:20]} == {200}
        assert client.get("/accounts").status_code == 200


def test_a_query_that_takes_too_long_is_ended(tmp_path):
    with served(tmp_path / "home", explorer_seconds=0.000001) as found, found.http() as client:
        answer = client.post("/usage/query", json=SEPTEMBER)
        assert answer.status_code == 400
        assert "takes longer than" in answer.json()["message"]


def test_whoever_hangs_up_leaves_the_server_well(http, server):
    with pytest.raises(httpx.TimeoutException), server.http() as client:
        client.post("/usage/query", json=SEPTEMBER, timeout=httpx.Timeout(5, read=0.000001))
    assert asked(http)["hasMoreData"] is False


def test_the_documented_question_has_the_documented_answer(server, meter):
    [program] = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    with server.sdk() as client:
        names = {"client": client, "egress": meter}
        exec(program, names)  # the documented lines themselves
    rows = names["found"].data

    shown = re.findall(r'"([^"]+)":', program.split("found.data[0]")[1])
    assert list(rows[0]) == shown
    assert {row["account"]: (row["day"], row["measure.gb.SUM"]) for row in rows} == {
        "acme": ("2026-09-01T00:00:00Z", 0.3),
        "bolt": ("2026-09-30T00:00:00Z", 9007199254740993),
    }


def test_every_documented_path_by_codes_is_there(http):
    table = DOCUMENT.read_text().split("## By codes")[1].split("\n\n")[2]
    asked = []
    for row in table.splitlines()[2:]:
        cell = row.split(" | ")[0]
        method, _, rest = cell.partition("`")[2].partition(" ")
        paths = re.findall(r"[a-z]+(?:/[a-z]+)*", cell.split("; also")[0].replace(method, "", 1))
        asked += [(method, path) for path in paths if path not in {"and", "json"}]
        assert rest
    folders = re.search(r"also below `(.+?)` \|", table)[1].split("`, `")
    asked += [
        ("POST", f"{folder}/download/{kind}") for folder in folders for kind in ("csv", "json")
    ]

    assert len(asked) == 12 + 1 + 6
    for method, path in asked:
        answer = http.request(
            method, f"/dataexplorer/{path}", json={} if method == "POST" else None
        )
        assert answer.status_code == (400 if method == "POST" else 200), (path, answer.text)


# --- The question as SQL, and its rows as files ---------------------------------------------------


def download(http, kind, **body):
    answer = http.post(f"/usage/query/download/{kind}", json={**SEPTEMBER, **body})
    assert answer.status_code == 200, answer.text
    return httpx.get(answer.json()["downloadUrl"])


def by_account(meter):
    return {"aggregations": [fold(meter)], "groups": [{"groupType": "ACCOUNT"}]}


@pytest.mark.sees("PostUsageDataQuerySql")
def test_the_sql_of_a_question_gives_its_answer(server, http, meter):
    filters = [{"meterId": meter, "fieldCode": "region", "values": ["us", "it's"]}]
    body = {**SEPTEMBER, **by_account(meter), "dimensionFilters": filters}
    [found] = http.post("/usage/query/sql", json=body).json()["data"]
    with server.organization.lake.reader() as connection:
        rows = connection.execute(found["sql"]).fetchall()

    assert found["meter"] == "egress"
    assert found["sql"].startswith("-- large: ")
    assert "'it''s'" in found["sql"]
    assert {row[1:] for row in rows} == {
        (row["accountId"], Decimal(str(row["measure.gb.SUM"])))
        for row in asked(http, **by_account(meter), dimensionFilters=filters)["data"]
    }


def test_what_a_question_refuses_its_sql_refuses(http):
    answer = http.post("/usage/query/sql", json={**SEPTEMBER, "accountIds": [NOWHERE]})

    assert answer.status_code == 400
    assert "accountIds[0]" in answer.json()["message"]


def explained(http, body, row, **query):
    body = wire.dumps({**body, "group": row})
    answer = http.post("/usage/query/explain", content=body, headers=JSON, params=query)
    assert answer.status_code == 200, answer.text
    return wire.loads(answer.content)


@pytest.mark.sees("PostUsageDataQueryExplain")
@pytest.mark.parametrize(
    "groups",
    [
        [],
        [{"groupType": "ACCOUNT"}],
        [{"groupType": "TIME", "frequency": "DAY", "timezone": "Europe/Berlin"}],
        [{"groupType": "TIME", "frequency": "HOUR"}, {"groupType": "ACCOUNT"}],
        [{"groupType": "TIME", "frequency": "QUARTER"}, {"groupType": "REGION"}],
    ],
)
def test_each_number_of_an_answer_is_explained_by_its_measurements(server, http, meter, groups):
    by_region = {"groupType": "DIMENSION", "meterId": meter, "fieldCode": "region"}
    groups = [by_region if each["groupType"] == "REGION" else each for each in groups]
    body = {**SEPTEMBER, "aggregations": [fold(meter)], "groups": groups}
    rows = wire.loads(http.post("/usage/query", json=body).content)["data"]
    uids = []
    for row in rows:
        found = explained(http, body, row)
        assert found["row"] == row
        assert found["measurementCount"] == len(found["data"])
        values = [each["value"] for each in found["data"]]
        assert sum(values) == row["measure.gb.SUM"]
        uids += [each["uid"] for each in found["data"]]
        with server.organization.lake.reader() as connection:
            [told] = connection.execute(found["sql"]).fetchall()
        assert told[-1] == sum(values)

    assert sorted(uids) == ["1", "2", "3"]


def test_the_measurements_of_a_number_are_paged_with_file_and_row(http, meter):
    body = {**SEPTEMBER, "aggregations": [fold(meter)]}
    token, found = None, []
    while token or not found:
        answer = explained(http, body, {}, pageSize=1, nextToken=token)
        found += answer["data"]
        token = answer.get("nextToken")

    assert [(each["file"], each["row"], each["uid"]) for each in found] == [
        ("a.csv", 2, "1"),
        ("a.csv", 3, "2"),
        ("a.csv", 4, "3"),
    ]
    assert [each["account"] for each in found] == ["acme", "acme", "bolt"]


@pytest.mark.parametrize(
    ("group", "status", "sentence"),
    [
        ({}, 400, "day"),
        ({"day": "soon"}, 400, "group.day"),
        ({"day": None}, 400, "group.day"),
        ({"day": "2026-09-01T00:00:00Z", "hour": "x"}, 400, "group"),
        ({"day": "2026-09-02T00:00:00Z"}, 404, "usage"),
        ({"day": "2026-10-01T00:00:00Z"}, 404, "usage"),
        ({"day": "9999-12-31T00:00:00Z"}, 404, "usage"),
    ],
)
def test_what_is_no_group_of_the_question_is_refused(http, meter, group, status, sentence):
    day = [{"groupType": "TIME", "frequency": "DAY"}]
    body = {**SEPTEMBER, "aggregations": [fold(meter)], "groups": day, "group": group}
    answer = http.post("/usage/query/explain", json=body)

    assert answer.status_code == status
    assert sentence in answer.json()["message"]


def test_one_number_is_explained_at_a_time(http, meter):
    for some in ([], [fold(meter), fold(meter, "MAX")]):
        body = {**SEPTEMBER, "aggregations": some, "group": {}}
        answer = http.post("/usage/query/explain", json=body)
        assert answer.status_code == 400
        assert "aggregations" in answer.json()["message"]


@pytest.mark.sees("PostUsageDataQueryDownloadParquet")
def test_rows_are_downloaded_as_parquet_with_exact_numbers(http, tmp_path):
    (tmp_path / "rows.parquet").write_bytes(download(http, "parquet").content)
    rows = pq.read_table(tmp_path / "rows.parquet").to_pylist()

    assert {row["uid"]: row["measure.gb"] for row in rows} == {
        "1": Decimal("0.1"),
        "2": Decimal("0.2"),
        "3": Decimal(9007199254740993),
    }
    assert rows[0]["ts"].isoformat() == "2026-09-30T12:00:00+00:00"


@pytest.mark.sees("PostUsageDataQueryDownloadCsv", "PostUsageDataQueryDownloadJson")
def test_rows_are_downloaded_as_csv_and_json(http, meter):
    lines = download(http, "csv", **by_account(meter)).text.splitlines()
    rows = download(http, "json", **by_account(meter)).json()

    assert lines[0] == "meterId,meter,accountId,account,measure.gb.SUM"
    assert len(lines) == 3
    assert rows == asked(http, **by_account(meter))["data"]


def test_a_file_has_the_days_of_a_zone_only_on_request(http, meter):
    group = {"groupType": "TIME", "frequency": "DAY", "timezone": "Asia/Tokyo"}
    question = {**by_account(meter), "groups": [group]}
    plain, more = (
        http.get(found.json()["downloadUrl"]).text.splitlines()
        for found in (
            http.post("/usage/query/download/csv", json={**SEPTEMBER, **question}, params=params)
            for params in ({}, {"clocks": "true"})
        )
    )

    assert plain[0] == "meterId,meter,day,measure.gb.SUM"
    assert more[0] == "meterId,meter,day,day (Asia/Tokyo),measure.gb.SUM"
    [instant, day] = more[-1].split(",")[2:4]
    assert instant.endswith("T15:00:00Z")
    assert day > instant[:10]


def test_no_rows_are_a_file_without_any(http, tmp_path):
    time = {"startDate": "2020-01-01T00:00:00Z", "endDate": "2020-02-01T00:00:00Z"}
    (tmp_path / "rows.parquet").write_bytes(download(http, "parquet", **time).content)

    assert pq.read_table(tmp_path / "rows.parquet").num_rows == 0


def test_a_number_with_more_digits_than_parquet_takes_is_text(tmp_path):
    rows = [{"n": Decimal("1E+30")}, {"n": Decimal("1E-20")}, {"n": None}]
    (tmp_path / "rows.parquet").write_bytes(parquet(rows))

    assert pq.read_table(tmp_path / "rows.parquet").to_pylist() == [
        {"n": "1000000000000000000000000000000"},
        {"n": "0.00000000000000000001"},
        {"n": None},
    ]


# --- A quantity explained -------------------------------------------------------------------------


@pytest.mark.sees("ExplainQuantity")
def test_a_quantity_is_explained_down_to_its_measurements(server, http):
    configure(server.organization, aggregations=[aggregation("sent", "SUM")])
    aggregate(server.organization, PeriodSpec.month(Month.parse("2026-09")))
    asked_for = {"account": "acme", "aggregation": "sent", "period": "2026-09"}
    [found] = http.get("/usage/explain", params={**asked_for, "rows": 1}).json()["data"]

    assert found["quantity"] == pytest.approx(0.3)
    assert found["measurementCount"] == 2
    assert [each["file"] for each in found["measurements"]] == ["a.csv"]
    assert found["more"] is True
    assert "FROM" in found["statement"]
    missing = http.get("/usage/explain", params={**asked_for, "period": "2026-08"})
    assert missing.status_code == 404
    refused = http.get("/usage/explain", params={"account": "acme"})
    assert refused.json()["message"] == "aggregation is required"


@pytest.mark.sees("CalculateQuantities", "GetQuantitiesJob")
def test_a_quantity_that_is_older_than_its_measurements_says_so_until_it_is_calculated(
    server, http
):
    home = Home(server.stores, server.org_id, Clock())
    configure(server.organization, aggregations=[aggregation("sent_later", "SUM")])
    body = {"period": "2026-05"}
    home.ingest("may.csv", HEADER + csv_row("may-1", 2, ts="2026-05-03T00:00:00Z"))

    def calculate():
        """Ask for it, twice while it waits, and what the worker made of it."""
        waiting, same = (http.post("/usage/quantities", json=body).json() for _ in range(2))
        assert (waiting["status"], waiting["id"]) == ("PENDING", same["id"])
        list(run_round(QUANTITIES, Executor(server.settings), server.organization, lambda: False))
        done = http.get(f"/usage/quantities/{waiting['id']}").json()
        assert (done["status"], done["quantities"] > 0) == ("COMPLETE", True)
        return done

    assert calculate()["changed"] is True
    asked = {"account": "acme", "aggregation": "sent_later", "period": "2026-05"}

    def explained():
        [found] = http.get("/usage/explain", params=asked).json()["data"]
        return found

    assert "now" not in explained()
    home.ingest("late.csv", HEADER + csv_row("may-2", 5, ts="2026-05-04T00:00:00Z"))
    outdated = explained()
    again = calculate()

    assert outdated["quantity"] == 2
    assert outdated["now"] == {
        "quantity": 7,
        "units": 7,
        "measurementCount": 2,
        "measurementsCame": 1,
        "measurementsGone": 0,
    }
    assert (again["period"], again["frequency"], again["changed"]) == ("2026-05", "MONTHLY", True)
    assert explained()["quantity"] == 7
    assert "now" not in explained()
    assert calculate()["changed"] is False
    refused = http.post("/usage/quantities", json={"period": "soon"})
    assert refused.status_code == 400
