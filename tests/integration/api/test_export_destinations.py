"""Destinations of exports with the SDK: made, checked over HTTP, and exported to."""

import httpx
import m3ter
import pytest

from meterlake.pipeline.export.run import run_export
from tests.served import served

NO_ID = "00000000-0000-0000-0000-000000000000"
ROLE = "arn:aws:iam::123456789012:role/exports"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("destinations")
    (folder / "exports").mkdir()
    with served(folder / "home", export_folder=folder / "exports") as found:
        yield found


@pytest.fixture(scope="module")
def sdk(server):
    with server.sdk(_strict_response_validation=False) as made:
        yield made


@pytest.fixture(scope="module")
def http(server):
    with server.http() as made:
        yield made


def create(http, **content):
    document = {"name": "Finance", "code": "finance", "bucketName": "finance", **content}
    return http.post("/dataexports/destinations", json=document)


@pytest.mark.sees("CheckExportDestination")
def test_a_folder_of_the_server_is_a_destination(server, sdk, http):
    made = create(http, destinationType="LOCAL", prefix="a/b/", partitionOrder="TYPE_FIRST").json()
    known = sdk.data_exports.destinations.retrieve(made["id"]).to_dict()
    checked = http.post(f"/dataexports/destinations/{made['id']}/check").json()
    job_id = sdk.data_exports.create_adhoc(
        source_type="OPERATIONAL",
        operational_data_types=["ACCOUNTS"],
        extra_body={"destinationIds": [made["id"]]},
    ).job_id
    exported = run_export(server.stores, job_id)

    assert (known["destinationType"], known["prefix"]) == ("LOCAL", "a/b/")
    assert checked["writable"]
    assert checked["url"].endswith("/exports/finance/a/b")
    assert [step["succeeded"] for step in checked["steps"]] == [True] * 4
    assert sdk.data_exports.jobs.retrieve(job_id).status == "SUCCEEDED"
    [file] = (server.settings.export_folder / "finance").rglob("*.csv.gz")
    assert f"a/b/orgId={server.org_id}/type=account/date=" in file.as_posix()
    assert exported.places[0].name == "finance"


@pytest.mark.usefixtures("no_credentials")
def test_what_cannot_be_written_says_why(sdk, http):
    made = sdk.data_exports.destinations.create(
        bucket_name="never-made",
        project_number="1",
        pool_id="p",
        provider_id="q",
        extra_body={"name": "Theirs", "code": "theirs", "destinationType": "GCS"},
    )
    told = http.post(f"/dataexports/destinations/{made.id}/check").json()

    assert (told["code"], told["writable"]) == ("theirs", False)
    [step] = told["steps"]
    assert step["name"] == "write"
    assert "METERLAKE_FEDERATION_TOKEN_FILE" in step["reason"]


@pytest.mark.parametrize("id_", [NO_ID, "none"])
def test_what_is_not_there_is_not_checked(http, id_):
    answer = http.post(f"/dataexports/destinations/{id_}/check")
    assert answer.status_code == httpx.codes.NOT_FOUND


@pytest.mark.parametrize(
    ("content", "named"),
    [
        ({"destinationType": "LOCAL", "bucketName": "../up"}, "bucketName"),
        ({"destinationType": "LOCAL", "bucketName": "a/b/c"}, "bucketName"),
        ({"destinationType": "LOCAL", "bucketName": "..."}, "bucketName"),
        ({"destinationType": "LOCAL", "prefix": "../up"}, "prefix"),
        ({"iamRoleArn": ROLE, "bucketName": "a/o/b?c"}, "bucketName"),
        ({"iamRoleArn": ROLE, "prefix": "a//b"}, "prefix"),
        ({"iamRoleArn": ROLE, "prefix": "a\nb"}, "prefix"),
        ({"iamRoleArn": ROLE, "prefix": "ü" * 251}, "prefix"),
        ({"iamRoleArn": "arn:aws:iam::1:user/x"}, "iamRoleArn"),
        ({}, "destinationType"),
    ],
)
def test_names_that_lead_elsewhere_are_refused(http, content, named):
    answer = create(http, **{"code": "wrong", **content})
    assert answer.status_code == httpx.codes.BAD_REQUEST
    assert named in answer.json()["message"]


def test_a_destination_that_a_schedule_uses_stays(sdk, http):
    made = create(http, code="used", iamRoleArn=ROLE).json()
    sdk.data_exports.schedules.create(
        source_type="OPERATIONAL",
        operational_data_types=["ACCOUNTS"],
        extra_body={
            "name": "Daily",
            "code": "daily",
            "scheduleType": "DAY",
            "period": 1,
            "destinationIds": [made["id"]],
        },
    )
    with pytest.raises(m3ter.ConflictError):
        sdk.data_exports.destinations.delete(made["id"])


def test_a_damaged_or_foreign_file_of_a_destination_is_found_and_not_given_out(server, sdk, http):
    made = create(http, code="damaged", bucketName="damaged", destinationType="LOCAL").json()
    job_id = sdk.data_exports.create_adhoc(
        source_type="OPERATIONAL",
        operational_data_types=["ACCOUNTS"],
        extra_body={"destinationIds": [made["id"]]},
    ).job_id
    run_export(server.stores, job_id)
    folder = server.settings.export_folder / "damaged"
    [file] = folder.rglob("*.csv.gz")
    [manifest] = folder.rglob("*_manifest.json")
    place = {"place": "damaged"}
    link = f"/dataexports/jobs/{job_id}/files/{file.name}/getdownloadurl"
    whole = httpx.get(http.get(link, params=place).json()["url"])
    assert whole.content == file.read_bytes()

    file.write_bytes(file.read_bytes() + b"x")
    checked = http.post(f"/dataexports/jobs/{job_id}/verify", params=place).json()
    assert not checked["verified"]
    assert all(each["file"].endswith(file.name) for each in checked["problems"])

    (folder / "orgId=other").mkdir()
    (folder / "orgId=other" / file.name).write_bytes(b"theirs")
    key = file.relative_to(folder).as_posix()
    for theirs in (f"orgId=other/{file.name}", f"orgId={server.org_id}/../orgId=other/{file.name}"):
        manifest.write_text(manifest.read_text().replace(f'"{key}"', f'"{theirs}"'))
        key = theirs
        url = http.get(link, params=place).json()["url"]
        assert httpx.get(url).status_code in {400, 404}


def test_a_folder_that_is_not_permitted_is_refused_when_it_is_saved(server, http, tmp_path):
    folder = server.settings.export_folder
    (folder / "escape").symlink_to(tmp_path, target_is_directory=True)
    answer = create(http, code="escape", bucketName="escape", destinationType="LOCAL")

    assert answer.status_code == 400
    assert "a link leads out of there" in answer.json()["message"]

    made = create(http, code="moved", bucketName="moved", destinationType="LOCAL").json()
    moved = {**made, "bucketName": "escape"}
    assert http.put(f"/dataexports/destinations/{made['id']}", json=moved).status_code == 400


def test_without_a_folder_for_exports_no_folder_is_a_destination(tmp_path):
    with served(tmp_path / "home") as found, found.http() as http:
        answer = create(http, destinationType="LOCAL")
        bucket = create(http, destinationType="S3", iamRoleArn=ROLE)

    assert answer.status_code == 400
    assert "METERLAKE_EXPORT_FOLDER" in answer.json()["message"]
    assert bucket.status_code == 200, bucket.text
