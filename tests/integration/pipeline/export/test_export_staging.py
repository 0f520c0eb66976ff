"""Documents become files: none is lost where files end, and the job hears how far they are."""

from contextlib import contextmanager

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from meterlake.model.work.export_request import ExportRequest, Format, Source
from meterlake.pipeline.export.files import FileLimits, open_documents
from meterlake.pipeline.export.run import submit_export
from meterlake.pipeline.export.staging import ExportStaging, StagedDocuments
from meterlake.pipeline.jobs.attempt import running
from meterlake.stages.export.column_kinds import ExportColumn
from meterlake.stages.export.manifest import ExportPart, ObjectPrefix

pytest_plugins = ["tests.doubles.fixtures"]

COLUMNS = (ExportColumn("id"),)


def documents(count):
    return ({"id": f"{number:05}"} for number in range(count))


@contextmanager
def staging_of(home, folder, **request):
    asked = ExportRequest(source=Source.OPERATIONAL, types=("products",), **request)
    jobs, id_ = home.stores.state.jobs, submit_export(home.organization, asked)
    job = jobs.take(id_, home.lake.snapshot())
    with running(jobs, job) as attempt:
        place = ObjectPrefix(home.org_id, id_, job.created)
        yield ExportStaging(home.stores, place, asked, folder, job.snapshot, job.created, attempt)


def stage(staging, type_, written):
    with StagedDocuments(staging, ExportPart(type_), COLUMNS) as staged:
        for each in written:
            staged.add(each)
    return list(staged.files())


def test_documents_in_parquet_are_split_and_all_there(home, tmp_path):
    with staging_of(home, tmp_path, format=Format.PARQUET, file_bytes=1) as staging:
        files = stage(staging, "product", documents(20_001))
    tables = [pq.read_table(tmp_path / file.key.rpartition("/")[2]) for file in files]

    assert [file.rows for file in files] == [table.num_rows for table in tables]
    assert [file.rows for file in files] == [10_000, 10_000, 1]
    assert pa.concat_tables(tables).to_pylist() == list(documents(20_001))
    assert [file.key.rpartition("-")[2] for file in files] == [
        f"000{number}.parquet" for number in (1, 2, 3)
    ]


@pytest.mark.parametrize("format_", Format)
@pytest.mark.parametrize("most", [-1, 1, 3])
def test_every_file_has_a_row_however_small_it_is_to_be(tmp_path, format_, most):
    waiting = documents(2)
    with open_documents(tmp_path / "file", COLUMNS, format_, FileLimits(most, 1)) as file:
        for each in waiting:
            file.add(each)
            if file.is_full:
                break

    left = [each["id"] for each in waiting]
    assert left == ([] if format_ is Format.PARQUET else ["00001"])


@pytest.mark.parametrize("format_", Format)
def test_rows_are_told_while_they_are_written(home, tmp_path, format_):
    with staging_of(home, tmp_path, format=format_) as staging:
        attempt, told = staging.attempt, []

        def watched(count):
            for number, document in enumerate(documents(count)):
                if number % 1500 == 1000:
                    attempt.renew()
                    told.append(home.stores.state.jobs.get(attempt.job.id).progress["rows"])
                yield document

        for type_ in ("one", "other"):
            stage(staging, type_, watched(2600))
        attempt.renew()
        told.append(home.stores.state.jobs.get(attempt.job.id).progress["rows"])

    assert told == [1000, 2000, 3600, 4600, 5200]
