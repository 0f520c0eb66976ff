"""A look of a round costs what there is to do, not how many organizations there are."""

import os
import random
import time
from collections import Counter
from contextlib import contextmanager

import pytest
from sqlalchemy import event, insert

from meterlake.model.catalog.catalog import Product
from meterlake.model.work.export_request import KIND as EXPORT
from meterlake.model.work.jobs import JobKind
from meterlake.pipeline.events.reader import read_log
from meterlake.pipeline.home.alerts import _limits
from meterlake.pipeline.ingest.drop_folder import DropFolder, DropFolders
from meterlake.pipeline.jobs.fair_turns import KnownOrganizations, RoundQuestion, give_turns
from meterlake.stores.files.segments import mark_lakes, marked_lakes
from meterlake.stores.state.core.tables import ORGANIZATION
from meterlake.stores.state.events.incidents import LakeLook, note_look
from meterlake.stores.state.jobs import submit
from meterlake.stores.state.jobs.jobs import Job
from meterlake.worker import waiting_work as questions
from tests.homes import settings
from tests.organizations import Clock, open_new

MANY = 200
ASKED = {
    "uploads": questions.ask_jobs(JobKind.UPLOAD, JobKind.LOOKUP),
    "exports": questions.ask_jobs(EXPORT),
    "inboxes": questions.ask_inboxes,
    "drops": questions.ask_drops,
    "segments": questions.ask_segments,
    "events": questions.ask_events,
    "schedules": questions.ask_schedules,
    "balances": questions.ask_balances,
    "approvals": questions.ask_approvals,
    "scheduled events": questions.ask_dates,
    "alerts": questions.ask_lakes,
}


def add_organizations(stores, count):
    """Organizations of which nothing is known but their names."""
    now = stores.now()
    rows = [
        {"id": f"org-{number:04}", "code": f"code-{number:04}", "name": f"N {number}"}
        for number in range(count)
    ]
    look = LakeLook(now, None, "", _limits(stores), "0 None")
    with stores.state.writing_home() as connection:
        connection.execute(insert(ORGANIZATION), [{**row, "created": now} for row in rows])
        for row in rows:
            note_look(connection, row["id"], look)
    for row in rows:
        for folder in ("inbox", "claimed"):
            (stores.home / "drop" / row["code"] / folder).mkdir(parents=True)
    return [row["id"] for row in rows]


@pytest.fixture
def stores(home_database, tmp_path):
    assert home_database
    with open_new(settings(tmp_path / "home"), Clock()) as opened:
        yield opened


def let_time_pass(stores):
    """Have all inboxes be as if they had not changed for a while."""
    for inbox in (stores.home / "drop").glob("*/inbox"):
        os.utime(inbox, (1_700_000_000, 1_700_000_000))


@contextmanager
def counting_work(stores, monkeypatch):
    """Counts the statements of State and the folders that are listed."""
    counts = Counter()

    def note(*_):
        counts["statements"] += 1

    def scandir(path="."):
        counts["folders"] += 1
        return real(path)

    real, engine = os.scandir, stores.state._database.engine
    event.listen(engine, "before_cursor_execute", note)
    with monkeypatch.context() as patched:
        patched.setattr(os, "scandir", scandir)
        yield counts
    event.remove(engine, "before_cursor_execute", note)


@pytest.mark.parametrize("name", ASKED)
def test_a_question_asks_as_much_of_many_organizations_as_of_few(name, stores, monkeypatch):
    add_organizations(stores, MANY)
    let_time_pass(stores)
    ask = ASKED[name](stores).ask
    assert list(ask()) == []  # What is read once is read now.

    with counting_work(stores, monkeypatch) as counts:
        assert list(ask()) == []

    assert counts["statements"] <= 4  # BEGIN and ROLLBACK are two of them.
    assert counts["folders"] <= 1


def test_a_batch_is_found_by_the_next_look(stores):
    [chosen] = random.sample(add_organizations(stores, MANY), 1)
    ask = questions.ask_segments(stores).ask
    assert list(ask()) == []

    stores.segments.append(chosen, [b"{}"]).result()

    assert list(ask()) == [chosen]
    folder = stores.segment_folder(chosen)
    folder.clear_mark()
    assert list(ask()) == [chosen], "there is an open segment"
    stores.segments.close()
    folder.clear_mark()
    assert list(ask()) == [chosen], "there is a closed segment"
    [segment] = folder.waiting()
    segment.unlink()
    folder.clear_mark()
    assert list(ask()) == []


def test_a_segment_without_a_mark_is_found_by_a_look_at_all(stores):
    chosen = add_organizations(stores, 3)[1]
    stores.segments.append(chosen, [b"{}"]).result()
    folder, lakes = stores.segment_folder(chosen), stores.lake_folder(chosen).parent
    folder.mark.unlink()  # As after a loss of power.
    assert marked_lakes(lakes) == []

    mark_lakes(lakes)

    assert marked_lakes(lakes) == [chosen]


def test_a_segment_that_comes_while_its_mark_is_removed_keeps_a_mark(stores):
    [chosen] = add_organizations(stores, 1)
    folder = stores.segment_folder(chosen)
    looks = []

    class Late(type(folder)):
        def has_segments(self):
            found = super().has_segments()
            if not looks:
                stores.segments.append(chosen, [b"{}"]).result()
            looks.append(found)
            return found

    Late(folder.lake).clear_mark()

    assert looks == [False, True]
    assert folder.mark.exists()


def test_a_job_is_found_by_the_next_look_until_somebody_works_on_it(stores):
    chosen = add_organizations(stores, MANY)[random.randrange(MANY)]
    exports, uploads = (ASKED[each](stores).ask for each in ("exports", "uploads"))
    job = Job("job-1", chosen, EXPORT, stores.now())
    with stores.state.writing_home() as connection:
        submit(connection, job)
    assert (list(exports()), list(uploads())) == ([chosen], [])

    taken = stores.state.jobs.take("job-1", 1)
    assert list(exports()) == []

    stores.now.advance(seconds=61)  # Who worked on it is dead.
    assert list(exports()) == [chosen]
    stores.state.jobs.finish(taken)
    assert list(exports()) == []


def test_events_are_found_by_the_next_look_until_they_are_read(stores):
    add_organizations(stores, MANY)
    with stores.state.new_organization("made", "Made", "test") as transaction:
        transaction.create(Product(code="cloud", name="Cloud"))
        made = transaction.org_id
    ask = questions.ask_events(stores).ask
    first, second = list(ask()), list(ask())
    assert first == [made]
    assert second == []  # Only what is new since then.

    with stores.state.transaction(made, "test") as transaction:
        transaction.create(Product(code="shop", name="Shop"))

    assert list(ask()) == [made]
    assert read_log(stores.organization(made)) == 2
    assert list(ask()) == []
    assert list(questions.ask_events(stores).ask()) == []


def test_a_dropped_file_is_found_however_many_folders_there_are(tmp_path):
    codes = [f"code-{number:04}" for number in range(600)]
    for code in codes:
        for folder in ("inbox", "claimed"):
            (tmp_path / "drop" / code / folder).mkdir(parents=True)
        os.utime(tmp_path / "drop" / code / "inbox", (1_700_000_000, 1_700_000_000))
    folders = DropFolders(tmp_path)
    assert [folders.find_waiting(codes) for _ in range(3)] == [[], [], []]

    (tmp_path / "drop" / codes[-1] / "inbox" / "rows.csv").write_text("x")

    found = [folders.find_waiting(codes) for _ in range(3)]
    assert [codes[-1]] in found
    assert folders.find_waiting(codes) == [codes[-1]], "one that waits is looked at each time"


@pytest.mark.parametrize(
    ("name", "is_found"),
    [("rows.csv", True), ("rows.csv.part", False), (".hidden", False)],
)
def test_what_is_not_finished_is_nothing_to_do(tmp_path, name, is_found):
    folder = DropFolder(tmp_path / "drop" / "acme")
    folder.create()
    (folder.inbox / name).write_text("x")

    assert DropFolders(tmp_path).find_waiting(["acme"]) == (["acme"] if is_found else [])


def test_what_a_dead_process_left_claimed_is_found(tmp_path):
    folder = DropFolder(tmp_path / "drop" / "acme")
    folder.create()
    folders = DropFolders(tmp_path)
    assert folders.find_waiting(["acme"]) == []

    (folder.claimed / "20261001T000000.000000Z-0123456789ab").mkdir()
    (folder.inbox / "rows.csv").write_text("x")
    (folder.inbox / "rows.csv").unlink()

    assert folders.find_waiting(["acme"]) == ["acme"]


def test_folders_that_are_missing_are_to_be_made(tmp_path):
    assert DropFolders(tmp_path).find_waiting(["acme"]) == ["acme"]


def test_who_is_named_has_turns_and_all_others_now_and_then(stores):
    ids = add_organizations(stores, 20)
    had = Counter()

    def verb(organization, _):
        had[organization.id] += 1
        return ()

    def is_over():
        return had[ids[7]] >= 3 and len(had) == len(ids)

    give_turns(stores, verb, is_over, 0.0, 1, RoundQuestion(lambda: [ids[7]]))

    assert had[ids[7]] >= 3


@pytest.mark.long
def test_turns_of_those_that_nobody_named_take_no_more_than_their_share(stores):
    ids = add_organizations(stores, 50)
    had = Counter()

    def verb(organization, _):
        org_id = organization.id
        had[org_id] += 1
        begun = time.thread_time()
        while org_id != ids[0] and time.thread_time() < begun + 0.1:
            pass
        return ()

    give_turns(stores, verb, lambda: had[ids[0]] > 10, 0.0, 1, RoundQuestion(lambda: [ids[0]]))

    # Half a second of the processor at once, and then a thousandth of each second.
    assert 0 < sum(had.values()) - had[ids[0]] <= 7


def test_a_question_without_an_answer_is_logged_and_ends_nothing(stores, caplog):
    ids = add_organizations(stores, 2)
    had = Counter()

    def ask():
        raise ZeroDivisionError("nobody foresaw it")

    def verb(organization, _):
        had[organization.id] += 1
        return ()

    give_turns(stores, verb, lambda: len(had) == len(ids), 0.0, 1, RoundQuestion(ask))

    assert caplog.text.count("the look for what waits") == 1


def test_organizations_are_read_again_when_there_are_more(stores):
    known = KnownOrganizations(stores)
    assert list(known.ids()) == []

    ids = add_organizations(stores, 2)

    assert list(known.ids()) == ids
