"""Exports to destinations of an organization: whose credentials, which names, and what goes wrong."""

from pathlib import Path

import pytest

from meterlake.model.errors import Invalid, NotFound, Unavailable
from meterlake.model.values import failpoint
from meterlake.pipeline.export.destinations import check_destination
from meterlake.pipeline.export.run import export, submit_export
from meterlake.stores.objects import open_objects
from meterlake.stores.state import JobStatus
from tests.doubles.clouds import AUDIENCE, ROLE, Google, TrustPolicy
from tests.doubles.destinations import GCS, LOCAL, S3, configured, destination, hashes, usage
from tests.doubles.http_faults import relay, s3_error

pytest_plugins = ["tests.doubles.fixtures"]


@pytest.fixture
def home(export_home):
    return export_home


@pytest.fixture
def bucket(export_bucket):
    return export_bucket


@pytest.fixture
def trusted(home, bucket):
    """A destination in the bucket, reached over a relay that minds the role."""
    place, name = bucket
    with relay(place.server) as network:
        network.rule = policy = TrustPolicy(home.org_id)
        configured(home, s3_endpoint=network.url)
        yield policy, destination(home, bucketName=name, prefix="/some/prefix/", **S3)


@pytest.mark.long
def test_a_bucket_of_s3_is_written_in_its_role_with_the_organization_as_external_id(
    home, bucket, trusted
):
    policy, id_ = trusted
    exported = export(home.organization, usage(id_))
    [asked] = policy.assumed

    assert asked["RoleArn"] == ROLE
    assert asked["ExternalId"] == home.org_id
    assert asked["RoleSessionName"] == "meterlake-export"
    assert {key[:4] for key in policy.keys} == {"ASIA"}
    assert exported.url == bucket[0].url
    objects = bucket[0].open()
    assert all(hashes(objects, exported.manifest))
    assert {info.key for info in objects.list()} == {
        *(file["key"] for file in exported.manifest["files"]),
        exported.manifest_url.removeprefix(f"{exported.url}/"),
    }


def test_a_role_that_trusts_another_organization_is_not_assumed(home, trusted):
    policy, id_ = trusted
    policy.external_id = "another organization"
    with pytest.raises(Invalid, match=r"the role cannot be assumed \(AccessDenied"):
        export(home.organization, usage(id_))
    job = home.stores.state.jobs.recent(home.org_id)[0]

    assert job.status is JobStatus.FAILED
    assert "the role cannot be assumed" in job.error
    assert policy.keys == []


@pytest.mark.long
def test_a_role_is_assumed_again_when_its_credentials_end_in_between(home, trusted, monkeypatch):
    policy, id_ = trusted

    def end(reached):
        if reached == "export.file_put" and not policy.ended:
            policy.ended.add(policy.keys[-1])

    monkeypatch.setattr(failpoint, "hook", end)
    exported = export(home.organization, usage(id_))

    assert len(policy.assumed) == 2
    assert len(exported.manifest["files"]) > 1


@pytest.mark.long
def test_the_machines_own_credentials_can_be_used_instead(home, trusted):
    policy, id_ = trusted
    configured(home, export_credentials="own")
    export(home.organization, usage(id_))

    assert policy.assumed == []
    assert {key[:4] for key in policy.keys} == {"AKID"}


@pytest.fixture
def google(home, strict_gcs, tmp_path, monkeypatch):
    # In the background the library asks Google itself for regions.
    asks = "google.auth.credentials.CredentialsWithRegionalAccessBoundary"
    monkeypatch.setattr(f"{asks}._is_regional_access_boundary_lookup_required", lambda _: False)
    token = tmp_path / "token"
    token.write_text("who we are")
    with relay(strict_gcs) as network:
        network.rule = rule = Google()
        configured(
            home,
            gcs_endpoint=network.url,
            gcs_sts_endpoint=network.url,
            federation_token_file=token,
        )
        yield rule


@pytest.mark.long
def test_a_bucket_of_google_is_written_as_the_account_of_its_pool(home, google, strict_gcs):
    id_ = destination(home, bucketName="test-bucket", prefix="federated", **GCS)
    exported = export(home.organization, usage(id_))
    plain = home.stores.settings.model_copy(update={"gcs_endpoint": strict_gcs})
    asked = google.exchanged[0]

    assert asked["audience"] == AUDIENCE
    assert asked["subject_token"] == "who we are"
    assert asked["subject_token_type"] == "urn:ietf:params:oauth:token-type:jwt"
    assert all(hashes(open_objects("gs://test-bucket/federated", plain), exported.manifest))


@pytest.mark.usefixtures("s3_credentials")
def test_google_knows_this_machine_by_its_aws_credentials_without_a_token(home, google):
    configured(home, federation_token_file=None)
    id_ = destination(home, bucketName="test-bucket", prefix="by-aws", **GCS)
    told = check_destination(home.organization, id_)
    asked = google.exchanged[0]

    assert told["writable"]
    assert asked["subject_token_type"] == "urn:ietf:params:aws:token-type:aws4_request"
    assert "GetCallerIdentity" in asked["subject_token"]
    assert "x-goog-cloud-target-resource" in asked["subject_token"]


@pytest.mark.long
def test_a_token_of_google_that_is_revoked_is_replaced(home, google, monkeypatch):
    id_ = destination(home, bucketName="test-bucket", prefix="revoked", **GCS)

    def revoke(reached):
        if reached == "export.file_put" and not google.revoked:
            google.revoked |= {f"account-{number}" for number in range(1, google.given + 1)}

    monkeypatch.setattr(failpoint, "hook", revoke)
    export(home.organization, usage(id_))

    assert google.given > len(google.revoked) > 0


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"poolId": "other"}, "no such provider"),
        ({"serviceAccountEmail": "other@x.example"}, "may not act as that account"),
        ({"serviceAccountEmail": None}, "Invalid Credentials|no credentials"),
    ],
)
@pytest.mark.usefixtures("google")
def test_a_pool_that_does_not_trust_us_is_told(home, changes, told):
    id_ = destination(home, bucketName="test-bucket", **{**GCS, **changes})
    with pytest.raises(Invalid, match=told):
        export(home.organization, usage(id_))


def test_a_token_file_that_is_not_there_is_told(home, google, tmp_path):
    configured(home, federation_token_file=tmp_path / "gone")
    id_ = destination(home, bucketName="test-bucket", **GCS)
    [step] = check_destination(home.organization, id_)["steps"]

    assert "gone" in step["reason"]
    assert google.exchanged == []


# --- folders of the server --------------------------------------------------------------------


@pytest.mark.long
def test_a_local_destination_lies_in_the_folder_of_exports(home, tmp_path):
    configured(home, export_folder=tmp_path / "exports")
    (tmp_path / "exports").mkdir()
    plain = destination(home, **LOCAL, bucketName="finance", prefix="m")
    other = destination(home, **LOCAL, bucketName="ops", partitionOrder="TYPE_FIRST")
    exported = export(home.organization, usage(plain, other))
    keys = [file["key"] for file in exported.manifest["files"]]
    by_type = [
        path.relative_to(tmp_path / "exports/ops")
        for path in (tmp_path / "exports/ops").rglob("*.gz")
    ]

    assert all((tmp_path / "exports/finance/m" / key).is_file() for key in keys)
    assert {path.name for path in by_type} == {Path(key).name for key in keys}
    for key in keys:
        organization, date, hour, kind, name = key.split("/")
        assert Path(organization, kind, date, hour, name) in by_type
    [manifest] = (tmp_path / "exports/ops").rglob("*_manifest.json")
    day = f"{keys[0].split('/')[1]}/{keys[0].split('/')[2]}"
    assert str(manifest.parent).endswith(f"orgId={home.org_id}/type=manifest/{day}")


def test_local_destinations_need_a_folder_that_is_allowed(home):
    id_ = destination(home, **LOCAL)
    before = home.stores.state.jobs.recent(home.org_id)
    with pytest.raises(Invalid, match="METERLAKE_EXPORT_FOLDER"):
        submit_export(home.organization, usage(id_))
    told = check_destination(home.organization, id_)

    assert not told["writable"]
    assert "METERLAKE_EXPORT_FOLDER" in told["steps"][0]["reason"]
    assert home.stores.state.jobs.recent(home.org_id) == before


@pytest.mark.long
def test_a_folder_that_is_not_mounted_is_not_made(home, tmp_path):
    configured(home, export_folder=tmp_path / "mount", export_attempts=2)
    id_ = destination(home, **LOCAL)
    with pytest.raises(Unavailable, match="there is no folder"):
        export(home.organization, usage(id_))

    assert not (tmp_path / "mount").exists()


def test_a_link_leads_nowhere_else(home, tmp_path):
    configured(home, export_folder=tmp_path / "exports")
    (tmp_path / "exports").mkdir()
    (tmp_path / "outside").mkdir()
    (tmp_path / "exports" / "theirs").symlink_to(tmp_path / "outside")
    id_ = destination(home, **LOCAL)
    with pytest.raises(Invalid, match="a link leads out of"):
        export(home.organization, usage(id_))

    assert [*(tmp_path / "outside").iterdir()] == []


# --- the check --------------------------------------------------------------------------------


def test_a_check_says_that_it_can_be_written_and_leaves_nothing(home, bucket, trusted):
    told = check_destination(home.organization, trusted[1])

    assert told["writable"]
    assert told["destinationType"] == "S3"
    assert told["url"] == bucket[0].url
    assert [step["name"] for step in told["steps"]] == ["write", "read", "remove", "removeParts"]
    assert all(step["succeeded"] for step in told["steps"])
    assert [*bucket[0].open().list()] == []


def test_a_check_says_what_a_role_may_not(home, bucket):
    place, name = bucket
    with relay(place.server) as network:
        network.rule = lambda asked: (
            None if asked.method in {"PUT", "POST"} else s3_error(403, "AccessDenied")
        )
        configured(home, s3_endpoint=network.url)
        told = check_destination(home.organization, destination(home, bucketName=name, **S3))

    assert told["writable"]
    assert [step["name"] for step in told["steps"] if not step["succeeded"]] == [
        "read",
        "remove",
        "removeParts",
    ]
    assert all("access is refused" in step["reason"] for step in told["steps"][1:])


def test_a_check_says_why_it_cannot_be_written(home, bucket):
    configured(home, s3_endpoint=bucket[0].server)
    told = check_destination(home.organization, destination(home, bucketName="never", **S3))

    assert not told["writable"]
    assert told["steps"] == [
        {
            "name": "write",
            "succeeded": False,
            "reason": "no bucket 's3://never'; create it, or name another one",
        }
    ]
    with pytest.raises(NotFound):
        check_destination(home.organization, home.org_id)
