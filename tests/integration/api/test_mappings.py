"""A mapping is tried on the beginning of a file, kept, and then reads the files that come."""

import base64
import json

import pytest

from meterlake.pipeline.ingest.drop_folder import drop_folder
from meterlake.pipeline.ingest.uploads import ingest_uploads
from tests.homes import ACCOUNTS, CALLS, EGRESS, Home, configure
from tests.organizations import Clock
from tests.served import served

MAPPING = {
    "name": "sizes",
    "files": ["sizes*.csv"],
    "account": {"column": "who", "trim": True, "case": "lower"},
    "ts": {"column": "when", "format": "%d.%m.%Y"},
    "uid": ["id"],
    "measurements": [
        {"meter": "egress", "fields": {"measure.gb": "size", "where.region": "region"}}
    ],
}
HEAD = "id,who,when,size,region,note\n"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with served(tmp_path_factory.mktemp("mappings") / "home", limit_explorer=False) as found:
        configure(found.organization, meters=[EGRESS, CALLS], accounts=ACCOUNTS)
        yield found


@pytest.fixture
def attempt(server):
    """Try a mapping on a text; the answer."""

    def attempt_it(text, mapping=MAPPING, *, name="sizes.csv", status=200):
        content = text if isinstance(text, bytes) else text.encode()
        body = {"name": name, "content": base64.b64encode(content).decode()}
        if mapping is not None:
            body["mapping"] = mapping
        with server.http() as client:
            answer = client.post("/measurements/mappings/try", json=body)
        assert answer.status_code == status, answer.text
        return answer.json()

    return attempt_it


def home_of(server):
    return Home(server.stores, server.org_id, Clock())


@pytest.mark.sees("TryMapping")
def test_rows_stand_beside_what_becomes_of_them_and_nothing_is_kept(server, attempt):
    before = home_of(server).ledger()

    found = attempt(
        HEAD
        + '1, ACME ,03.10.2025,1.50,eu,"a\nb"\n'
        + "2,bolt,2025-10-03,1,eu,\n"
        + "3,new,04.10.2025,x,eu,\n"
    )

    assert found["columns"] == ["id", "who", "when", "size", "region", "note"]
    good, late, wrong = found["rows"]
    assert (good["row"], good["values"]["note"], good["rejected"]) == (2, "a\nb", [])
    assert good["measurements"] == [
        {
            "meter": "egress",
            "account": "acme",
            "uid": "1",
            "ts": "2025-10-03T00:00:00Z",
            "fields": {"measure.gb": "1.5", "where.region": "eu"},
        }
    ]
    # Its text has a line break: the next row stands in line 4.
    assert (late["row"], late["rejected"][0]["reason"]) == (4, "InvalidTimestamp")
    assert (wrong["row"], wrong["rejected"][0]["field"]) == (5, "measure.gb")
    assert (found["received"], found["accepted"], found["rejected"]) == (3, 1, 2)
    assert found["problems"] == []
    assert home_of(server).ledger() == before


def test_a_mapping_that_lacks_a_column_leaves_the_columns_to_see(attempt):
    found = attempt("id;client\n1;acme\n")

    assert (found["status"], found["reason"]) == ("failed", "MissingHeader")
    assert (found["columns"], found["rows"][0]["values"]) == (
        ["id", "client"],
        {"id": "1", "client": "acme"},
    )


def test_nested_records_have_paths_as_columns_that_a_mapping_takes(attempt):
    span = {
        "at": 1790848800123,
        "payload": '{"bytes": 2048.50}',
        "attributes": [{"key": "tenant.id", "value": {"s": "acme"}}],
        "resource": {"cloud.region": "eu"},
    }
    mapping = {
        "name": "spans",
        "account": {"column": "attributes[key=tenant.id].value.s"},
        "ts": {"column": "at", "epoch": "ms"},
        "measurements": [
            {
                "meter": "egress",
                "fields": {
                    "measure.gb": "payload.bytes",
                    "where.region": 'resource."cloud.region"',
                },
            }
        ],
    }

    found = attempt(json.dumps(span), mapping, name="spans.ndjson")

    assert found["columns"] == [
        "at",
        "payload.bytes",
        "attributes[key=tenant.id].value.s",
        'resource."cloud.region"',
    ]
    [row] = found["rows"]
    assert row["values"]["payload.bytes"] == "2048.50"
    [measurement] = row["measurements"] or [row["rejected"]]
    assert measurement["fields"] == {"measure.gb": "2048.5", "where.region": "eu"}
    array = attempt(json.dumps([span]), mapping, name="spans.json")
    assert array["columns"] == found["columns"]


def test_a_row_may_become_several_measurements_or_none(attempt):
    rule = MAPPING["measurements"][0]
    when = [{**rule, "when": {"equals": {"note": each}}} for each in ("a", "b")]
    mapping = {**MAPPING, "measurements": [*when, {**rule, "when": {"present": ["note"]}}]}

    found = attempt(HEAD + "1,acme,03.10.2025,1,eu,a\n2,acme,03.10.2025,1,eu,\n", mapping)

    assert [len(each["measurements"]) for each in found["rows"]] == [2, 0]
    assert [each["uid"] for each in found["rows"][0]["measurements"]] == ["1.0", "1.2"]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"ts": {"column": "when", "format": "%Q"}}, "ts: %Q of a format is none of"),
        ({"measurements": []}, "measurements"),
        ({"acount": {"column": "who"}}, "acount"),
    ],
)
def test_what_is_no_mapping_is_refused_by_its_place(attempt, change, sentence):
    assert sentence in attempt(HEAD, {**MAPPING, **change}, status=400)["message"]


def test_a_file_is_base64_and_no_larger_than_a_trial(attempt, server):
    assert "1,000,000 bytes or less" in attempt(b"x" * 1_000_001, status=400)["message"]
    with server.http() as client:
        body = {"name": "a.csv", "content": "no base64"}
        answer = client.post("/measurements/mappings/try", json=body)
    assert "it must be the file in base64" in answer.json()["message"]


def test_what_of_a_mapping_does_not_fit_the_meters_is_told(attempt):
    rule = {"meter": "egres", "fields": {"measure.gb": "size"}}

    found = attempt(HEAD, {**MAPPING, "measurements": [rule]})

    assert found["problems"] == ["measurements[0].meter: no meter 'egres'; did you mean 'egress'?"]


SIZES = HEAD + "7,acme,03.10.2025,1,eu,\n"


def uploaded(server, name, text):
    """What became of an uploaded file."""
    data = text.encode()
    body = {"fileName": name, "contentType": "text/csv", "contentLength": len(data)}
    with server.http() as client:
        sent = client.post("/fileuploads/measurements/generateUploadUrl", json=body).json()
        client.put(sent["url"], content=data, headers=sent["headers"])
        list(ingest_uploads(server.organization))
        return client.get(f"/fileuploads/measurements/jobs/{sent['jobId']}").json()


@pytest.mark.long
@pytest.mark.sees("ListMappings", "SaveMapping", "DeleteMapping")
def test_a_saved_mapping_reads_uploads_of_its_names_until_it_is_deleted(server):
    with server.http() as client:
        saved = client.put("/measurements/mappings/sizes", json=MAPPING)
        [listed] = client.get("/measurements/mappings").json()["data"]

        assert saved.json() == listed
        assert {name: listed["mapping"][name] for name in MAPPING} == MAPPING
        assert listed["author"].startswith("SERVICE_USER_")
        assert uploaded(server, "sizes-1.csv", SIZES)["status"] == "succeeded"

        assert client.delete("/measurements/mappings/sizes").json() == {"name": "sizes"}
        assert client.get("/measurements/mappings").json()["data"] == []
        assert client.delete("/measurements/mappings/sizes").status_code == 404
    failed = uploaded(server, "sizes-2.csv", SIZES.replace("7,", "8,"))
    assert "MissingHeader" in failed["failureReason"]


@pytest.mark.parametrize(
    ("name", "change", "sentence"),
    [
        ("sizes", {"files": []}, "names no files"),
        ("sizes", {"measurements": [{"meter": "egress"}]}, "no column for 'measure.gb'"),
        ("..hidden", {}, "begin with none of"),
        ("a%20b", {}, "letters, digits"),
    ],
)
def test_what_could_read_no_file_is_not_saved(server, name, change, sentence):
    with server.http() as client:
        answer = client.put(f"/measurements/mappings/{name}", json={**MAPPING, **change})
        assert client.get("/measurements/mappings").json()["data"] == []

    assert (answer.status_code, sentence in answer.json()["message"]) == (400, True)


def test_a_file_that_is_no_mapping_is_listed_with_its_problem(server):
    folder = drop_folder(server.stores, server.organization.code)
    folder.create()
    (folder.mappings / "odd.yml").write_text("name: odd\n")
    with server.http() as client:
        [listed] = client.get("/measurements/mappings").json()["data"]
        answer = client.put("/measurements/mappings/odd", json=MAPPING)
        [mended] = client.get("/measurements/mappings").json()["data"]
        client.delete("/measurements/mappings/odd")

    assert (listed["name"], "account" in listed["problem"]) == ("odd", True)
    assert (answer.status_code, mended["mapping"]["name"]) == (200, "sizes")
    assert list(folder.mappings.iterdir()) == []
