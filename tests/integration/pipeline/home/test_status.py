"""`status`: what is in the lake, how fresh, and what happened last."""

from datetime import UTC, datetime

import pytest

import sample_data
from meterlake.model.errors import NotFound
from meterlake.model.values.period import Month
from meterlake.pipeline.config import apply_configuration
from meterlake.pipeline.home.setup import initialize
from meterlake.pipeline.home.status import status
from meterlake.pipeline.ingest.drop_folder import drop_folder
from meterlake.pipeline.ingest.files import expand, ingest_files
from meterlake.pipeline.usage.aggregate import aggregate
from meterlake.settings import Settings
from meterlake.stores import open_stores
from tests.organizations import prepare_home

NOW = datetime(2026, 11, 2, 8, tzinfo=UTC)


@pytest.fixture
def stores(tmp_path):
    settings = Settings(home=prepare_home(tmp_path / "home"), threads=1)
    initialize(settings, "Halvorsen Cloud")
    with open_stores(settings, lambda: NOW) as stores:
        organization = stores.state.organization()
        documents = apply_configuration.read_documents([sample_data.CONFIGURATION])
        apply_configuration.apply(stores.state, organization.id, documents, "test")
        yield stores


@pytest.mark.long
def test_a_new_organization_has_nothing(stores):
    found = status(stores.find_organization())

    assert {meter.code: meter.measurements for meter in found.meters} == {
        "api_calls": 0,
        "llm_tokens": 0,
        "seats": 0,
        "storage": 0,
    }
    assert found.totals == dict.fromkeys(found.totals, 0)
    assert found.rejected == {}
    assert found.sources == []


@pytest.mark.long
def test_meters_sources_and_rejected_rows_are_counted(stores):
    organization = stores.find_organization()
    names = ("14-seats-days-21-31.ndjson", "12-api-bad-rows.ndjson")
    paths = [sample_data.MEASUREMENTS / name for name in names]
    list(ingest_files(organization, paths))
    # Again: what was rejected is rejected again, and counts once.
    list(ingest_files(organization, paths))

    found = status(organization)

    seats = next(meter for meter in found.meters if meter.code == "seats")
    assert seats.measurements == 396
    assert seats.received == NOW
    assert seats.last == datetime(2026, 10, 31, 22, 30, tzinfo=UTC)
    assert found.totals["sources"] == 4
    # The contradicted uid is not stored here: one less than in the books.
    assert sum(found.rejected.values()) == 10
    assert {source["name"] for source in found.sources} == set(names)
    assert len(status(organization, limit=1).sources) == 1


@pytest.mark.long
def test_what_is_no_file_in_the_drop_folder_is_named(stores):
    organization = stores.find_organization()
    folder = drop_folder(stores, organization.code)
    assert status(organization).left_alone == []
    folder.create()
    (folder.inbox / "october").mkdir()
    (folder.inbox / "a.csv").write_text("waits")

    assert status(organization).left_alone == ["october"]


def test_an_organization_without_a_lake_is_no_crash(stores, tmp_path):
    organization = stores.find_organization()
    (organization.lake.catalog.file).rename(tmp_path / "elsewhere")

    with pytest.raises(NotFound, match="lake"):
        status(organization)


def test_folders_are_walked_by_name_and_hidden_files_left_out(tmp_path):
    for name in ("b.csv", "a/z.csv", ".hidden.csv", ".x/y.csv"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()

    assert expand([tmp_path]) == [tmp_path / "a/z.csv", tmp_path / "b.csv"]
    with pytest.raises(NotFound):
        expand([tmp_path / "nosuch.csv"])


@pytest.mark.long
def test_the_books_of_the_sample_agree_with_a_file(stores):
    organization = stores.find_organization()
    list(ingest_files(organization, [sample_data.MEASUREMENTS / "01-llm-week-1.csv"]))

    result = aggregate(organization, Month(2026, 10))

    assert sum(each.measurements for each in result.quantities) == 4 * 2301
