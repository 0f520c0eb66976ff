"""Drop folders of several machines: each worker works its own, and a file counts once."""

from contextlib import ExitStack

import pytest

from meterlake.pipeline.ingest.drop import ingest_inbox
from meterlake.pipeline.ingest.drop_folder import drop_folder
from meterlake.stores import open_stores
from tests.e2e.remote_homes import installation
from tests.homes import HEADER, Home, csv_row
from tests.organizations import Clock

DATA = HEADER + csv_row("u1") + csv_row("u2")


@pytest.fixture
def machines(tmp_path, postgresql, s3_lakes):
    """Two machines, with a home each; only PostgreSQL and the bucket are shared."""
    with installation(tmp_path, postgresql, s3_lakes) as made, ExitStack() as opened:
        org_id, clock = made.initialize().org_id, Clock()
        yield [
            Home(opened.enter_context(open_stores(made.machine(name), now=clock)), org_id, clock)
            for name in ("first", "second")
        ]


def folder_of(machine):
    folder = drop_folder(machine.stores, "acme")
    folder.create()
    return folder


def drop(machine):
    path = folder_of(machine).inbox / "a.csv"
    path.write_text(DATA)
    return path


def work(machine):
    return list(ingest_inbox(machine.organization, folder_of(machine), 0))


@pytest.mark.slow
def test_a_worker_works_the_drop_folder_of_its_machine_alone(machines):
    first, second = machines
    dropped = drop(first)

    assert work(second) == []
    assert dropped.exists()
    [receipt] = work(first)

    assert receipt.accepted == 2
    assert [uid for uid, *_ in second.uids()] == ["u1", "u2"]


@pytest.mark.slow
def test_a_file_that_is_dropped_on_two_machines_is_stored_once(machines):
    for machine in machines:
        drop(machine)
    accepted = [receipt.accepted for machine in machines for receipt in work(machine)]

    assert accepted[0] == 2
    assert [uid for uid, *_ in machines[0].uids()] == ["u1", "u2"]
    machines[0].check_rows()
