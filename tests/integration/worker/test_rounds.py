from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from meterlake.model.work.jobs import JobKind
from meterlake.pipeline.home.job_kinds import JOB_KINDS
from meterlake.worker import __main__ as worker
from meterlake.worker.flow_runs import Executor
from meterlake.worker.rounds import INBOXES, ROUNDS, Loop, Round
from tests.homes import a_home

FLOWS = Path(__file__).parents[3] / "flows"


@pytest.fixture
def home(tmp_path):
    with a_home(tmp_path, prefect_url="") as opened:
        yield opened


def test_a_round_has_a_name_of_its_own():
    assert max(Counter(each.name for each in ROUNDS).values()) == 1


def test_how_often_a_round_looks_is_a_number_or_a_setting(home):
    looks = []
    loop = Loop(home.stores, Executor(home.stores.settings), lambda: True)

    for every in (INBOXES.every, 7.0):
        Round("x", every, lambda _, seconds: looks.append(seconds)).run(loop)

    assert looks == [home.stores.settings.inbox_seconds, 7.0]


def test_all_rounds_are_started_and_each_has_stores_of_its_own(home, monkeypatch):
    stores = []
    rows = tuple(
        replace(each, function=lambda loop, _: stores.append(id(loop.stores))) for each in ROUNDS
    )
    monkeypatch.setattr(worker, "rounds_of", lambda _: rows)

    with ExitStack() as opened, ThreadPoolExecutor(len(rows)) as pool:
        settings = home.stores.settings
        for each in worker.start_rounds(opened, pool, settings, lambda: False):
            each.result()

    assert len(set(stores)) == len(ROUNDS)


def test_everything_that_waits_has_a_row_whose_flow_is_there():
    # Runs of integrations are sent in one loop, an object of an inbox is found by a listing, and a
    # month is closed by whoever asks for it.
    alone = {JobKind.INTEGRATION_RUN, JobKind.INBOX_OBJECT, JobKind.CLOSING}
    assert set(JOB_KINDS) == set(JobKind) - alone
    without = [kind for kind, spec in JOB_KINDS.items() if spec.flow is None]
    # Letters and documents of bills are for a person who waits, whom no schedule and no person of
    # Prefect stands for.
    assert without == [
        *(JobKind.BILL_LETTER, JobKind.BILL_DOCUMENTS),
        *(JobKind.CLOSING_STEP, JobKind.QUANTITIES),
    ]
    for spec in JOB_KINDS.values():
        module = (spec.flow or "closing").partition(":")[0]
        assert (FLOWS / f"{module}.py").exists(), spec.flow
