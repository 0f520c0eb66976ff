"""What came in, over HTTP: the numbers of the lake, how fresh meters are, receipts page by page."""

from types import SimpleNamespace

import pytest

from meterlake.model.errors import Invalid
from meterlake.pipeline.ingest.drop_folder import drop_folder
from meterlake.pipeline.ingest.inbox import add_inbox, poll_inboxes, remove_inbox
from meterlake.pipeline.ingest.named_inboxes import permitted_place
from meterlake.stores import Organization
from meterlake.stores.state.ingest.inboxes import Afterwards
from tests.homes import ACCOUNTS, EGRESS, HEADER, Home, configure, csv_row
from tests.homes import settings as home_settings
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
    assert found["overdueFiles"] == []


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
    parts = answer_of(http, "sources", nameContains="OKEN.c")["data"]
    assert [each["name"] for each in parts] == ["broken.csv"]
    assert answer_of(http, "sources", name="oken.c")["data"] == []
    assert answer_of(http, "sources", nameContains="%")["data"] == []
    assert answer_of(http, "sources", source=named["identity"][:12])["data"] == [named]
    assert answer_of(http, "sources", until="2000-01-01")["data"] == []
    assert answer_of(http, "sources", source="0" * 36)["data"] == []


@pytest.fixture
def inboxes(tmp_path):
    """A server of its own with two inboxes; to one of them came two files, one of which is broken."""
    with served(tmp_path / "home") as found:
        configure(found.organization, meters=[EGRESS], accounts=ACCOUNTS)
        for name in ("one", "two"):
            (tmp_path / name).mkdir()
            add_inbox(found.organization, str(tmp_path / name), Afterwards.LEAVE, "USER_1")
        (tmp_path / "one" / "good.csv").write_text(HEADER + csv_row("inbox"))
        (tmp_path / "one" / "broken.csv").write_bytes(b"uid,ts\n1,2\n")
        assert len(list(poll_inboxes(found.organization))) == 2
        with found.http() as client:
            yield client


@pytest.mark.long
@pytest.mark.sees("ListInboxes")
def test_inboxes_are_listed_with_what_became_of_their_objects(inboxes):
    first = answer_of(inboxes, "inboxes", pageSize=1)
    [second] = answer_of(inboxes, "inboxes", pageSize=1, nextToken=first["nextToken"])["data"]
    assert (second["afterwards"], second["author"], second["objects"]) == ("leave", "USER_1", [])
    objects = {each["key"].rpartition("/")[2]: each for each in first["data"][0]["objects"]}
    assert {name: each["status"] for name, each in objects.items()} == {
        "good.csv": "DONE",
        "broken.csv": "FAILED",
    }
    assert objects["good.csv"]["accepted"] == 1
    assert objects["broken.csv"]["error"].startswith("MissingHeader: ")
    assert inboxes.get("/measurements/inboxes", params={"nextToken": "x"}).status_code == 400


@pytest.mark.sees("GetMeasurementsTemplate")
def test_a_template_has_the_columns_of_a_meter_and_a_row(http):
    answer = http.get("/measurements/template", params={"meter": "egress"})
    assert answer.headers["content-type"].startswith("text/csv")
    assert answer.text.startswith("meter,account,uid,ts,measure.gb,where.region\negress,")
    assert http.get("/measurements/template").status_code == 400
    assert http.get("/measurements/template", params={"meter": "none"}).status_code == 404


@pytest.mark.parametrize("order", ["ASC", "DESC"])
@pytest.mark.parametrize(
    "by", ["finishedAt", "receivedAt", "name", "received", "accepted", "rejected"]
)
def test_sources_are_sorted_and_each_comes_once(http, by, order):
    found, token = [], None
    while token or not found:
        query = {"nextToken": token} if token else {}
        page = answer_of(http, "sources", pageSize=2, sortBy=by, sortOrder=order, **query)
        found += page["data"]
        token = page.get("nextToken")
    assert len({(each["identity"], each["attempt"]) for each in found}) == len(found)
    assert len(found) == len(FILES) + 2
    values = [each[by] for each in found]
    assert values == sorted(values, reverse=order == "DESC")


@pytest.mark.parametrize(
    "query", [{"nextToken": "x"}, {"pageSize": 101}, {"status": "open"}, {"since": "yesterday"}]
)
def test_strange_queries_are_refused(http, query):
    answer = http.get("/measurements/sources", params=query)

    assert answer.status_code == 400
    assert next(iter(query)) in answer.json()["message"]


@pytest.fixture
def shared(tmp_path):
    """A server that allows folders below one that all organizations share."""
    folder = tmp_path / "shared"
    folder.mkdir()
    with served(tmp_path / "home", inbox_folders=(str(folder),)) as found:
        configure(found.organization, meters=[EGRESS], accounts=ACCOUNTS)
        yield found, folder


@pytest.mark.long
@pytest.mark.sees("AddInbox", "CheckInbox", "RemoveInbox")
def test_an_inbox_is_checked_added_changed_and_removed(shared):
    server, folder = shared
    place = folder / "acme"
    place.mkdir()
    (place / "usage.csv").write_text(HEADER + csv_row("named"))
    with server.http() as http:
        checked = http.post("/measurements/inboxes/check", json={"url": str(place)}).json()
        added = http.post("/measurements/inboxes", json={"url": str(place)}).json()
        body = {"url": str(place), "afterwards": "leave"}
        changed = http.post("/measurements/inboxes", json=body).json()
        [listed] = answer_of(http, "inboxes")["data"]
        [receipt] = poll_inboxes(server.organization)
        removed = http.delete(f"/measurements/inboxes/{added['id']}")
        again = http.delete(f"/measurements/inboxes/{added['id']}")

    assert (checked["answers"], checked["objects"]) == (True, ["acme/usage.csv"])
    assert (added["afterwards"], changed["id"], changed["afterwards"]) == (
        "move",
        added["id"],
        "leave",
    )
    assert (listed["id"], listed["url"]) == (added["id"], str(place))
    assert listed["author"].startswith("SERVICE_USER_")
    assert receipt.accepted == 1
    assert (removed.json()["id"], again.status_code) == (added["id"], 404)


def test_an_inbox_lies_only_where_the_server_allows_it(shared, tmp_path):
    server, folder = shared
    (folder / "link").symlink_to(tmp_path)
    own = drop_folder(server.stores, server.organization.code)
    own.create()
    (own.root / "sftp").mkdir()
    refused = [
        "/etc",
        "shared/acme",
        str(folder),
        str(folder / "link" / "home"),
        f"{folder}/../home",
        str(own.inbox),
        str(own.mappings),
        str(server.stores.home / "drop" / "other" / "inbox"),
        "ftp://bucket/prefix",
        "s3://key:secret@bucket/prefix",
    ]
    with server.http() as http:
        for url in refused:
            for path in ("inboxes", "inboxes/check"):
                answer = http.post(f"/measurements/{path}", json={"url": url})
                assert answer.status_code == 400, url
                assert "secret" not in answer.text
        (tmp_path / "outside").mkdir(exist_ok=True)
        # What a command has added is checked and changed, too.
        add_inbox(server.organization, str(tmp_path / "outside"), Afterwards.LEAVE)
        place = {"url": str(tmp_path / "outside")}
        assert http.post("/measurements/inboxes/check", json=place).json()["answers"]
        remove_inbox(server.organization, place["url"])
        allowed = http.post("/measurements/inboxes", json={"url": str(own.root / "sftp")})
        assert (allowed.status_code, len(answer_of(http, "inboxes")["data"])) == (200, 1)


def test_an_inbox_is_no_place_of_the_home_itself(server):
    settings = home_settings(
        server.stores.home, objects="s3://ours/home/objects", lake="s3://ours/lakes"
    )
    stores = SimpleNamespace(settings=settings, state=server.stores.state)
    organization = Organization(stores, server.org_id)

    for url in ("s3://ours", "s3://ours/home/objects/x", "s3://ours/home", "s3://ours/lakes"):
        with pytest.raises(Invalid, match="no place of the home's own"):
            permitted_place(organization, url)
    assert permitted_place(organization, "s3://ours/usage/") == "s3://ours/usage"
