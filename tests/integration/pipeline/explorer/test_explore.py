"""Questions about usage: what is not there, what comes meanwhile, what is ended early."""

import json
import threading
from datetime import timedelta
from decimal import Decimal

import pytest

from meterlake.model.catalog.catalog import Meter
from meterlake.model.configuration.queries import UsageQueryRequest
from meterlake.model.customers.accounts import Account
from meterlake.model.errors import BadQuery, Invalid, NotFound
from meterlake.model.values.problems import read
from meterlake.pipeline.explorer import explore as verb
from meterlake.pipeline.explorer.explore import Stop, explore, explore_saved
from tests.homes import CALLS, EGRESS, HEADER, a_home, configure, csv_row

NOWHERE = "00000000-0000-4000-8000-000000000000"
SEPTEMBER = {"startDate": "2026-09-01T00:00:00Z", "endDate": "2026-10-01T00:00:00Z"}


@pytest.fixture
def home(tmp_path):
    with a_home(tmp_path) as opened:
        yield opened


def meter(home, code="egress"):
    with home.organization.reading() as reader:
        return reader.find(Meter, code).id


def account(home, code):
    with home.organization.reading() as reader:
        return reader.find(Account, code).id


def fold(home, function="SUM", code="egress", field="gb", type_="MEASURE"):
    return {
        "meterId": meter(home, code),
        "fieldCode": field,
        "fieldType": type_,
        "function": function,
    }


def asked(home, **query):
    return explore(home.organization, read(UsageQueryRequest, {**SEPTEMBER, **query}))


def uids(answer):
    return [row["uid"] for row in answer.documents()]


def test_nothing_is_found_where_nothing_was_ingested(home):
    for query in ({}, {"aggregations": [fold(home)]}, {"meterIds": [meter(home, "calls")]}):
        answer = asked(home, **query)
        assert (answer.documents(), answer.more) == ([], False)
        assert answer.to_json() == b'{"data":[],"hasMoreData":false}'


@pytest.mark.long
def test_nothing_is_found_in_a_time_without_measurements(home):
    home.ingest("a.csv", HEADER + csv_row("1"))
    early = {"startDate": "2026-01-01T00:00:00Z", "endDate": "2026-02-01T00:00:00Z"}
    assert asked(home, **early).documents() == []
    assert asked(home, **early, aggregations=[fold(home, "COUNT")]).documents() == []


def test_an_unknown_saved_question_is_not_found(home):
    with pytest.raises(NotFound):
        explore_saved(home.organization, NOWHERE)


@pytest.mark.long
def test_a_parent_is_without_its_children(home):
    child = {"code": "kid", "name": "Kid", "emailAddress": "a@b.example", "parentAccountId": "acme"}
    configure(home.organization, accounts=[child])
    home.ingest("a.csv", HEADER + csv_row("1", 1, "acme") + csv_row("2", 10, "kid"))
    aggregations, groups = [fold(home)], [{"groupType": "ACCOUNT"}]
    [row] = asked(home, accountIds=[account(home, "acme")], aggregations=aggregations).documents()
    assert row["measure.gb.SUM"] == 1
    both = asked(home, aggregations=aggregations, groups=groups).documents()
    assert {each["account"]: each["measure.gb.SUM"] for each in both} == {"acme": 1, "kid": 10}


@pytest.mark.long
def test_a_new_field_is_null_until_it_is_sent(home):
    home.ingest("a.csv", HEADER + csv_row("1"))
    field = {"category": "COST", "code": "own", "name": "Own"}
    changed = {**EGRESS, "dataFields": [*EGRESS["dataFields"], field]}
    configure(home.organization, meters=[changed])
    [row] = asked(home).documents()
    assert row["cost.own"] is None
    functions = ("SUM", "MEAN", "LATEST", "COUNT")
    [row] = asked(home, aggregations=[fold(home, f, field="own") for f in functions]).documents()
    assert [row[f"cost.own.{each}"] for each in functions] == [None, None, None, 0]


@pytest.mark.long
def test_sums_have_as_many_digits_as_they_need(home):
    most = "99999999999999999999999999.999999999999"
    rows = [csv_row(str(n), most, "acme" if n else "bolt") for n in range(5)]
    home.ingest("a.csv", HEADER + "".join(rows))
    folds = [fold(home), fold(home, "MEAN"), fold(home, "MAX")]
    [row] = asked(home, aggregations=folds).documents()
    assert row["measure.gb.SUM"] == Decimal("499999999999999999999999999.999999999995")
    assert row["measure.gb.MEAN"] == row["measure.gb.MAX"] == Decimal(most)
    text = asked(home, aggregations=folds).to_json().decode()
    assert '"measure.gb.SUM":499999999999999999999999999.99999999999' in text


@pytest.mark.long
def test_rows_of_several_meters_are_in_one_order(home):
    for hour in range(4):
        calls = {
            "meter": "calls",
            "account": "acme",
            "uid": f"c{hour}",
            "ts": "2026-09-03T10:00:00Z",
            "measure": {"n": 1},
            "cost": {"own": 1},
            "metadata": {"key": "k"},
        }
        home.ingest(f"c{hour}.ndjson", json.dumps(calls))
        home.ingest(f"e{hour}.csv", HEADER + csv_row(f"e{hour}"))
        home.clock.advance(hours=1)
    every = ["c3", "e3", "c2", "e2", "c1", "e1", "c0", "e0"]
    assert uids(asked(home)) == every
    for limit in range(1, 9):
        answer = asked(home, limit=limit)
        assert (uids(answer), answer.more) == (every[:limit], limit < 8)
    only = asked(home, meterIds=[meter(home, "calls")])
    assert uids(only) == ["c3", "c2", "c1", "c0"]


def test_what_comes_meanwhile_is_not_seen(home, monkeypatch):
    configure(home.organization, meters=[CALLS])
    home.ingest("a.csv", HEADER + csv_row("1"))
    real, came = verb.aggregate_query, []

    def slow(*arguments, **options):
        if not came:
            came.append(home.ingest("b.csv", HEADER + csv_row("2")))
        return real(*arguments, **options)

    monkeypatch.setattr(verb, "aggregate_query", slow)
    [row] = asked(home, aggregations=[fold(home, "COUNT")]).documents()
    assert row["measure.gb.COUNT"] == 1
    assert came[0].accepted == 1
    [row] = asked(home, aggregations=[fold(home, "COUNT")]).documents()
    assert row["measure.gb.COUNT"] == 2


@pytest.mark.long
def test_answers_are_whole_while_others_ingest(home):
    # Every file has one row of each of two accounts: whatever is seen has as many of both.
    done, uneven = threading.Event(), []

    def look():
        while not done.is_set():
            groups = [{"groupType": "ACCOUNT"}]
            found = asked(home, aggregations=[fold(home, "COUNT")], groups=groups).documents()
            counts = [row["measure.gb.COUNT"] for row in found]
            if len(set(counts)) > 1 or len(counts) == 1:
                uneven.append(counts)

    looking = threading.Thread(target=look)
    looking.start()
    try:
        for n in range(5):
            rows = csv_row(f"a{n}", 1, "acme") + csv_row(f"b{n}", 1, "bolt")
            home.ingest(f"{n}.csv", HEADER + rows)
    finally:
        done.set()
        looking.join()
    assert uneven == []


@pytest.mark.long
def test_a_question_is_ended_before_it_begins(home):
    home.ingest("a.csv", HEADER + csv_row("1"))
    stop = Stop()
    stop("enough")
    with pytest.raises(BadQuery, match="enough"):
        explore(home.organization, read(UsageQueryRequest, SEPTEMBER), stop)
    assert uids(asked(home)) == ["1"]


def test_a_running_question_is_ended(home):
    stop, ended = Stop(), []
    long = (
        "SELECT count(*) FROM range(1000000000) a, range(1000000000) b WHERE a.range % 7 = b.range"
    )

    def run():
        with home.organization.lake.reader() as connection:
            try:
                with stop.ending(connection):
                    started.set()
                    connection.execute(long)
            except BadQuery as error:
                ended.append(str(error))

    started = threading.Event()
    running = threading.Thread(target=run)
    running.start()
    assert started.wait(180)
    while running.is_alive():
        # An interrupt between two statements passes unheard.
        stop("too long")
        running.join(0.05)
    assert ended == ["query: too long; ask again"]


@pytest.mark.long
def test_a_saved_question_means_the_time_at_which_it_is_asked(home):
    saved = {
        "name": "yesterday",
        "usageQuery": {"timePeriod": "YESTERDAY", "meterIds": ["egress"]},
    }
    configure(home.organization, usageSavedQueries=[saved])
    with home.organization.reading() as reader:
        [record] = reader.all(verb.UsageSavedQuery)
    home.ingest("a.csv", HEADER + csv_row("1"))  # of 3 September
    assert uids(explore_saved(home.organization, record.id)) == []
    home.clock.time -= timedelta(days=27)
    assert uids(explore_saved(home.organization, record.id)) == ["1"]
    home.clock.advance(days=1)
    assert uids(explore_saved(home.organization, record.id)) == []


@pytest.mark.parametrize(
    "changes", [{"meterIds": [NOWHERE]}, {"accountIds": [NOWHERE]}, {"endDate": None}]
)
def test_what_does_not_exist_is_refused(home, changes):
    with pytest.raises(Invalid):
        asked(home, **changes)
