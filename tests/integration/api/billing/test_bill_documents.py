"""Documents of many bills as a job: how far it is, its file, and the end of that."""

import io
import zipfile
from datetime import timedelta

import pytest
from sqlalchemy import update

from meterlake.model.values.period import Month
from meterlake.pipeline.billing.jobs.jobs import bill
from meterlake.pipeline.documents.bundle_jobs import BILL_DOCUMENTS, KEPT
from meterlake.pipeline.jobs.waiting import run_round
from meterlake.stores.state.jobs import JOB
from meterlake.worker.flow_runs import Executor
from tests.bills import price_egress, subscribe
from tests.homes import ACCOUNTS, EGRESS, HEADER, configure, csv_row
from tests.served import served

NOBODY = "5d9d4a3e-0000-4000-8000-000000000000"
JOBS = "/bills/documents/jobs"


def use_egress(home):
    """Acme and bolt used something in August and September."""
    configure(home.organization, meters=[EGRESS], accounts=ACCOUNTS)
    price_egress(home)
    subscribe(home, "acme", "bolt")
    assert home.ingest("a.csv", HEADER + csv_row("1", "42.5")).rejected == 0
    for month in (8, 9):
        bill(home.organization, Month(2026, month))


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with served(tmp_path_factory.mktemp("documents") / "home", use_egress) as found:
        yield found


def work(server):
    """One round of the worker."""
    executor = Executor(server.settings)
    list(run_round(BILL_DOCUMENTS, executor, server.organization, lambda: False))


@pytest.mark.sees("CreateBillDocumentsJob", "GetBillDocumentsJob")
def test_a_job_makes_the_documents_of_a_month_and_keeps_the_file_for_a_day(server):
    with server.http() as http:
        order = {"month": "2026-09", "format": "zip", "usage": "none"}
        made = http.post(JOBS, json=order).json()
        assert (made["status"], made["bills"], made["done"]) == ("PENDING", 2, 0)
        assert "downloadUrl" not in http.get(f"{JOBS}/{made['id']}").json()
        work(server)
        found = http.get(f"{JOBS}/{made['id']}").json()
        assert (found["status"], found["done"]) == ("COMPLETE", 2)
        answer = http.get(found["downloadUrl"])
        assert answer.headers["content-type"] == "application/zip"
        with zipfile.ZipFile(io.BytesIO(answer.content)) as archive:
            assert archive.namelist() == ["acme_2026-09.pdf", "bolt_2026-09.pdf"]

        with server.stores.state.writing_home() as connection:
            before = JOB.c.id == made["id"]
            ended = server.organization.now() - KEPT - timedelta(minutes=1)
            connection.execute(update(JOB).where(before).values(finished=ended))
        gone = http.get(f"{JOBS}/{made['id']}").json()
        assert gone["status"] == "COMPLETE"
        assert "downloadUrl" not in gone


def test_chosen_bills_keep_their_order_and_those_of_one_customer_have_names_of_their_own(server):
    with server.http() as http:
        listed = http.get("/bills", params={"excludeLineItems": True}).json()["data"]
        by = {(each["accountCode"], each["billDate"]): each["id"] for each in listed}
        ids = [by[key] for key in sorted(by, key=lambda key: (key[0], key[1]), reverse=True)]
        made = http.post(JOBS, json={"billIds": ids, "format": "zip", "usage": "none"}).json()
        work(server)
        found = http.get(f"{JOBS}/{made['id']}").json()
        with zipfile.ZipFile(io.BytesIO(http.get(found["downloadUrl"]).content)) as archive:
            assert archive.namelist() == [
                "bolt_2026-09.pdf",
                "bolt_2026-08.pdf",
                "acme_2026-09.pdf",
                "acme_2026-08.pdf",
            ]


@pytest.mark.parametrize(
    ("wrong", "status", "words"),
    [
        ({}, 400, "billIds is required"),
        ({"month": "2020-01"}, 404, "make them first"),
        ({"billIds": [NOBODY]}, 404, NOBODY),
        ({"billIds": [NOBODY], "month": "2026-09"}, 400, "leave it out"),
    ],
)
def test_an_order_of_documents_without_bills_is_refused(server, wrong, status, words):
    with server.http() as http:
        found = http.post(JOBS, json=wrong)
        assert found.status_code == status
        assert words in found.json()["message"]
        assert http.get(f"{JOBS}/{NOBODY}").status_code == 404
