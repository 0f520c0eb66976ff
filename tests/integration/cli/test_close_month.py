"""`meterlake close-month`: each step once, whoever dies, and nothing counts without a review."""

import copy
import gzip
import os
import shutil
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb
import pytest

from meterlake.cli import run
from meterlake.model.resources.proposal import Document
from meterlake.model.values import failpoint
from meterlake.model.values.wire import loads
from meterlake.pipeline.closing.close_month import ClosingStep
from meterlake.pipeline.config import apply_configuration
from meterlake.pipeline.home.setup import initialize
from meterlake.settings import Settings
from meterlake.stores import open_stores
from meterlake.stores.state.billing.bills.bills import lock
from meterlake.stores.state.billing.bills.lists import BillFilters, list_bills
from meterlake.stores.state.core.pages import Page
from meterlake.stores.state.jobs import lease
from tests.organizations import DOCUMENTS

MONTH = "2026-10"
HEADER = "meter,account,uid,ts,measure.gb,where.region"
OTHER = "egress,bolt,{uid},2026-10-0{uid}T12:00:00Z,{gb},eu"
ROW = "egress,acme,{uid},2026-10-0{uid}T12:00:00Z,{gb},eu"
STEPS = [each.value for each in ClosingStep]
# A child that dies at a step; the leases of dead processes are over soon.
CHILD = """
import sys
from datetime import UTC, datetime, timedelta
from meterlake.model.values import failpoint
from meterlake.stores.state.jobs import lease
from tests.killing import die_at
lease.LEASES = dict.fromkeys(lease.LEASES, timedelta(seconds=1))
failpoint.hook = die_at(sys.argv[1], int(sys.argv[2]))
from meterlake.cli import run
sys.exit(run(sys.argv[3:]))
"""


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    home = tmp_path_factory.mktemp("closing") / "home"
    settings = Settings(home=home, _env_file=None)
    made = initialize(settings, "acme")
    documents = {
        **copy.deepcopy(DOCUMENTS),
        "organizationConfig": {"timezone": "UTC", "daysBeforeBillDue": 14},
    }
    with open_stores(settings) as stores:
        apply_configuration.apply(
            stores.state, made.org_id, [Document("all.yaml", documents)], "test"
        )
    return home


@pytest.fixture
def home(template, tmp_path, monkeypatch):
    monkeypatch.setenv("METERLAKE_SETTLE_SECONDS", "0")
    shutil.copytree(template, tmp_path / "home")
    drop(tmp_path / "home", "usage-1.csv", ROW.format(uid=1, gb=10))
    return tmp_path / "home"


def drop(home, name, *rows):
    path = home / "drop" / "acme" / "inbox" / name
    path.write_text("\n".join([HEADER, *rows]) + "\n")
    os.utime(path, (1, 1))


def ingest(home, name, *rows):
    drop(home, name, *rows)
    path = home / "drop" / "acme" / "inbox" / name
    assert run(["ingest", "--home", str(home), str(path)]) == 0


def billed(home):
    """What the bills have of the usage."""
    with (
        open_stores(Settings(home=home, _env_file=None)) as stores,
        stores.state.reading(stores.state.organization(None).id) as reader,
    ):
        bills, _ = list_bills(reader, BillFilters(), Page(100, None))
    lines = [line.body for each in bills for line in each.content.lines]
    return [each["quantity"] for each in lines if each.get("aggregationId")]


def rows_of(home, what):
    """The rows of the exported files of one type."""
    found = (home / "exports").rglob(f"*{what}*.jsonl.gz")
    return [
        loads(line) for path in found for line in gzip.decompress(path.read_bytes()).splitlines()
    ]


def exported(home):
    return [each["quantity"] for each in rows_of(home, "quantities")]


def measured(home):
    return [each["measure"]["gb"] for each in rows_of(home, "measurements")]


def published(home):
    query = "SELECT quantity FROM quantity_current"
    with duckdb.connect(
        str(home / "published/acme/warehouse.duckdb"), read_only=True
    ) as connection:
        return [row[0] for row in connection.execute(query).fetchall()]


def close(home, *options):
    return run(["close-month", MONTH, "--home", str(home), "--json", *options])


def die(tmp_path, step, time, arguments):
    """Run a command in a process that is killed at a step."""
    script = tmp_path / "child.py"
    script.write_text(CHILD)
    path = os.pathsep.join([str(Path(__file__).parents[3]), *filter(None, sys.path)])
    died = subprocess.run(
        [sys.executable, str(script), step, str(time), *arguments],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        check=False,
    )
    assert died.returncode == -9, died.stderr


def steps(capsys):
    lines = map(loads, capsys.readouterr().out.splitlines())
    return {line["step"]: line for line in lines if "step" in line}


def refusal(capsys):
    return loads(capsys.readouterr().err)["error"]["message"]


def close_reviewed(home, *options):
    """Close it in two runs, as people do."""
    assert close(home, *options) == 0
    return close(home, "--approve", *options)


def done(found):
    return [step for step, line in found.items() if line["status"] == "done"]


def seen(home):
    """Exports, and each bill's status."""
    with open_stores(Settings(home=home, _env_file=None)) as stores:
        organization = stores.find_organization(None)
        with organization.reading() as reader:
            bills, _ = list_bills(reader, BillFilters(), Page(100, None))
        exports = stores.state.jobs.recent(organization.id, "export")
        found = sorted((each.content.key.bill_date, each.status.value) for each in bills)
        return found, [each.status.value for each in exports]


@pytest.mark.long
def test_nothing_is_approved_or_exported_before_the_review(home, capsys):
    assert close(home) == 0

    assert done(steps(capsys)) == STEPS[: STEPS.index("review")]
    [(_, status)], exports = seen(home)
    assert (status, exports) == ("PENDING", [])

    assert close(home, "--approve") == 0
    first = steps(capsys)
    assert close(home, "--approve") == 0

    assert done(first) == STEPS
    # Closed is closed: nothing is exported again.
    assert steps(capsys) == first
    assert seen(home)[1] == ["COMPLETE", "COMPLETE"]
    assert [status for _, status in seen(home)[0]] == ["APPROVED"]
    assert (home / "published" / "acme" / "warehouse.duckdb").exists()


@pytest.mark.long
def test_a_file_that_is_missing_stops_it_before_anything_is_done(home, capsys):
    assert close(home, "--file", "usage-*.csv", "late-*.csv") == 1

    assert refusal(capsys) == (
        "no file late-*.csv came in time; deliver it, or expect it no more, and close the month"
        " again"
    )
    assert seen(home) == ([], [])
    drop(home, "late-1.csv", ROW.format(uid=2, gb=1))

    assert close(home, "--file", "usage-*.csv", "late-*.csv") == 0

    found = steps(capsys)
    assert found["files"]["outcome"] == {"expected": 2}
    assert found["ingest"]["outcome"]["accepted"] == 2


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        (("--to", "ftp://here/one"), "--to: 'ftp://here/one' is not allowed"),
        (("--to", "s3://"), "--to: 's3://' is not allowed"),
        (("--hours", "-1"), "--hours: -1.0 is not allowed: it must be 0 or more"),
        (("--hours", "nan"), "--hours: nan is not allowed"),
        (("--reject", " "), "--reject: ' ' is not allowed: give a reason"),
        (("--leave-open", "acme", "--reason", "x"), "it is only for --approve; give that, too"),
        (("--approve", "--leave-open", "acme"), "--reason"),
    ],
)
def test_what_is_not_allowed_is_refused_before_anything_is_done(home, capsys, options, rule):
    assert close(home, *options) == 1
    assert rule in capsys.readouterr().err
    assert (home / "drop" / "acme" / "inbox" / "usage-1.csv").exists()


def test_a_bill_that_somebody_doubts_stays_open_and_the_month_is_closed(home, capsys):
    close(home)
    capsys.readouterr()

    left_open = ("--approve", "--leave-open", "acme/2026-10", "--reason", "in doubt")
    assert run(["close-month", MONTH, "--home", str(home), *left_open]) == 0

    told = "".join(capsys.readouterr())
    assert f"{MONTH} is closed." in told
    assert "Without this bill, which waits for you: in doubt" in told
    with open_stores(Settings(home=home, _env_file=None)) as stores:
        organization = stores.find_organization()
        with organization.reading() as reader:
            found, _ = list_bills(reader, BillFilters(), Page(10))
        [left] = [each.id for each in found if each.status.value == "PENDING"]
    assert f"bill approve {left}" in told
    assert run(["bill", "review", "--month", MONTH, "--home", str(home), "--json"]) == 1
    assert "the month was approved without it: in doubt" in capsys.readouterr().out


@pytest.mark.long
def test_a_backfill_that_comes_too_late_is_refused(home, capsys):
    assert close(home) == 0
    assert close(home, "--approve", "--backfill", "nope") == 1
    assert "are applied already, without nope" in capsys.readouterr().err
    close(home)
    assert "review" not in done(steps(capsys))


@pytest.mark.slow
def test_bills_that_are_rejected_begin_anew(home, capsys):
    assert close(home, "--reject", "why") == 1
    assert "do not wait for a review" in capsys.readouterr().err
    close(home)
    capsys.readouterr()

    assert close(home, "--reject", "a price is wrong") == 1
    assert "the bills of 2026-10 are rejected: a price is wrong" in capsys.readouterr().err
    drop(home, "usage-2.csv", ROW.format(uid=2, gb=1))
    # What was shown is rejected: nobody has seen what comes next.
    assert close(home, "--approve") == 1
    assert "were not shown yet" in refusal(capsys)
    assert close_reviewed(home) == 0

    found = steps(capsys)
    assert done(found) == STEPS
    assert found["ingest"]["outcome"]["accepted"] == 1


@pytest.mark.long
def test_quantities_of_a_closed_month_are_those_of_its_bills(home, capsys):
    assert close(home) == 0
    first = steps(capsys)
    ingest(home, "usage-2.csv", ROW.format(uid=2, gb=5))
    # Nobody has taken this one in when the approval comes: it waits.
    drop(home, "usage-3.csv", ROW.format(uid=3, gb=7))

    assert close(home, "--approve") == 1

    assert "have changed since they were reviewed: those of acme;" in refusal(capsys)
    assert [status for _, status in seen(home)[0]] == ["PENDING"]
    assert close(home) == 0
    second = steps(capsys)
    assert done(second) == STEPS[: STEPS.index("review")]
    assert second["ingest"]["outcome"]["accepted"] == 1
    # The standing charge is 10.
    assert first["bill"]["outcome"]["totals"] == {"USD": "20.00"}
    assert second["bill"]["outcome"]["totals"] == {"USD": "32.00"}
    assert close(home, "--approve", "--format", "jsonl") == 0
    assert [status for _, status in seen(home)[0]] == ["APPROVED"]
    assert {*billed(home), *exported(home), *published(home)} == {22}


@pytest.mark.long
def test_what_comes_in_after_the_approval_is_not_exported_with_the_month(home, monkeypatch):
    assert close(home) == 0

    def fail(name):
        if name == "export.submitted":
            raise OSError("the disk is gone")

    monkeypatch.setattr(failpoint, "hook", fail)
    with pytest.raises(OSError, match="the disk is gone"):
        close(home, "--approve", "--format", "jsonl")
    monkeypatch.setattr(failpoint, "hook", lambda _: None)
    ingest(home, "usage-2.csv", ROW.format(uid=2, gb=5))

    assert close(home, "--approve", "--format", "jsonl") == 0

    assert {*billed(home), *exported(home), *published(home)} == {10}
    assert measured(home) == [10]


@pytest.mark.long
def test_quantities_that_no_bill_shows_are_reviewed_too(home, capsys):
    """An account without a plan: the bills stay, and what is exported of the month does not."""
    ingest(home, "other-1.csv", OTHER.format(uid=7, gb=1))
    assert close(home) == 0
    ingest(home, "other-2.csv", OTHER.format(uid=8, gb=1))
    capsys.readouterr()

    assert close(home, "--approve") == 1

    told = refusal(capsys)
    assert (
        "quantities of 2026-10 have changed since its bills were reviewed: those of bolt;"
        " the bills are the same. `meterlake close-month 2026-10"
    ) in told
    assert "makes the month ready again; approve it then" in told
    assert close_reviewed(home) == 0


@pytest.mark.slow
def test_a_step_that_fails_is_done_again_and_those_before_are_not(home, capsys, monkeypatch):
    met = []

    def fail(name):
        met.append(name)
        if name == "export.submitted" and met.count(name) == 1:
            raise OSError("the disk is gone")

    monkeypatch.setattr(failpoint, "hook", fail)
    assert close(home) == 0
    with pytest.raises(OSError, match="the disk is gone"):
        close(home, "--approve")
    noted = met.count("closing.step_noted")
    capsys.readouterr()

    assert close(home, "--approve") == 0

    assert noted == STEPS.index("export-usage")
    assert met.count("closing.step_noted") == len(STEPS)
    assert done(steps(capsys)) == STEPS
    assert seen(home)[1] == ["COMPLETE", "COMPLETE"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("time", "step"),
    # What is noted is the same for each step; the first and the last one show it.
    [(time, "closing.step_done") for time in range(1, len(STEPS) + 1)]
    + [(time, "closing.step_noted") for time in (1, len(STEPS))],
)
def test_whoever_dies_after_a_step_the_month_is_closed_once(
    home, tmp_path, capsys, monkeypatch, step, time
):
    shutil.copytree(home, tmp_path / "undisturbed")
    assert close_reviewed(tmp_path / "undisturbed") == 0
    expected, wanted = seen(tmp_path / "undisturbed"), steps(capsys)
    arguments = ["close-month", MONTH, "--home", str(home)]
    if time > (first := STEPS.index("review")):
        assert close(home) == 0
        arguments, time = [*arguments, "--approve"], time - first
    die(tmp_path, step, time, arguments)

    monkeypatch.setattr(lease, "LEASES", dict.fromkeys(lease.LEASES, timedelta(seconds=1)))
    assert close(home) == 0
    assert close(home, "--approve") == 0
    found = steps(capsys)
    assert done(found) == STEPS
    assert seen(home) == expected
    # Files that were ingested by who died are not there a second time.
    if not (step == "closing.step_done" and time == STEPS.index("ingest") + 1):
        assert found["ingest"]["outcome"] == wanted["ingest"]["outcome"]


@pytest.mark.long
def test_a_bill_that_was_approved_before_is_left_alone_and_shown_with_both_totals(home, capsys):
    assert close(home) == 0
    assert run(["bill", "--month", MONTH, "--home", str(home)]) == 0
    assert run(["bill", "--month", MONTH, "--approve", "--home", str(home)]) == 0
    ingest(home, "usage-2.csv", ROW.format(uid=2, gb=5))
    capsys.readouterr()

    assert close(home, "--approve") == 1
    assert "have changed since they were reviewed" in refusal(capsys)
    assert [status for _, status in seen(home)[0]] == ["APPROVED"]
    assert close(home) == 0

    lines = [loads(line) for line in capsys.readouterr().out.splitlines()]
    [left] = [line for line in lines if line.get("type") == "left"]
    assert (left["account"], left["total"], left["wouldBe"]) == ("acme", "20.00 USD", "25.00 USD")
    assert left["differs"] == ""
    assert run(["close-month", MONTH, "--home", str(home)]) == 0
    assert "--change-approved" in capsys.readouterr().out
    assert run(["bill", "--month", MONTH, "--change-approved", "--home", str(home)]) == 0
    assert close(home, "--approve") == 1
    assert close_reviewed(home) == 0
    assert {*billed(home), *published(home)} == {15}


def test_bills_that_nobody_was_shown_are_not_approved(home, capsys):
    assert close(home, "--approve") == 1

    told = f"the bills of 2026-10 were not shown yet: `meterlake close-month 2026-10 --home {home}`"
    assert told in refusal(capsys)
    assert seen(home) == ([], [])
    assert (home / "drop" / "acme" / "inbox" / "usage-1.csv").exists()


@pytest.mark.long
def test_a_review_shows_the_bills_and_what_is_open_about_them(home, capsys):
    drop(home, "usage-2.csv", OTHER.format(uid=2, gb=1), ROW.format(uid="x", gb=1))
    assert close(home) == 0

    lines = [loads(line) for line in capsys.readouterr().out.splitlines()]
    [bill] = [line for line in lines if line.get("type") == "bill"]
    assert (bill["account"], bill["total"], bill["status"]) == ("acme", 20, "PENDING")
    kinds = {line["kind"] for line in lines if line.get("type") == "open"}
    assert kinds == {"RejectedRows", "UnpricedUsage"}
    assert run(["close-month", MONTH, "--home", str(home)]) == 0
    shown = capsys.readouterr().out
    assert "20.00" in shown
    assert f"  meterlake close-month 2026-10 --approve --home {home}\n" in shown
    assert f"  meterlake close-month 2026-10 --reject REASON --home {home}\n" in shown


@pytest.mark.long
def test_a_review_is_made_again_before_the_approval(home, capsys):
    assert close(home) == 0
    ingest(home, "usage-2.csv", ROW.format(uid=2, gb=5))
    assert close(home) == 0
    assert billed(home) == [10]

    assert close(home, "--again") == 0

    assert billed(home) == [15]
    assert close(home, "--approve") == 0
    capsys.readouterr()
    assert close(home, "--again", "--approve") == 1
    assert "--again" in refusal(capsys)


@pytest.mark.long
def test_paths_of_a_closed_month_can_be_copied(home, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert close_reviewed(home) == 0
    found = steps(capsys)
    assert run(["close-month", MONTH, "--home", str(home)]) == 0

    lines = capsys.readouterr().out.splitlines()

    outcomes = {name: each["outcome"] for name, each in found.items()}
    for step in ("export-usage", "export-operational"):
        assert f"  {outcomes[step]['manifest']}" in lines
    assert f"  {outcomes['publish']['warehouse']}" in lines


def month_from_now(months):
    """A month, seen from this one; at midnight of the organization's zone another one may begin."""
    today = datetime.now(UTC)
    count = today.year * 12 + today.month - 1 + months
    return f"{count // 12}-{count % 12 + 1:02}"


def close_other(home, month, *options):
    return run(["close-month", month, "--home", str(home), "--json", *options])


@pytest.mark.long
def test_a_month_that_is_not_over_is_closed_early_or_not_at_all(home, capsys):
    month = month_from_now(0)

    assert close_other(home, month) == 1
    message = refusal(capsys)
    assert f"{month} is not over before {month_from_now(1)}-01T00:00:00Z" in message
    assert "--early closes it now; its usage that comes later is late usage" in message
    assert close_other(home, month_from_now(2), "--early") == 1
    assert "has not begun" in refusal(capsys)
    assert seen(home) == ([], [])
    assert (home / "drop" / "acme" / "inbox" / "usage-1.csv").exists()

    assert close_other(home, month, "--early") == 0
    assert done(steps(capsys)) == STEPS[: STEPS.index("review")]
    # What is meant by a word stays meant: the word is asked for again.
    assert close_other(home, month, "--approve") == 1


@pytest.mark.long
def test_a_closed_month_is_opened_again_with_what_stays(home, capsys):
    assert close(home, "--reopen", "--reason", "a price") == 1
    assert refusal(capsys).startswith(
        "2026-10 is not closed: there is nothing to reopen; `meterlake close-month 2026-10 "
    )
    assert close_reviewed(home, "--format", "jsonl") == 0
    capsys.readouterr()
    assert close(home, "--reject", "a price") == 1
    assert "2026-10 is closed" in refusal(capsys)
    assert close(home, "--backfill", "nope") == 1
    assert "are applied already, without nope" in refusal(capsys)

    assert close(home, "--reopen", "--reason", "a file was forgotten") == 0

    told = loads(capsys.readouterr().out)
    assert told["undone"] == {"pendingBills": 1}
    assert (told["kept"]["lockedBills"], told["kept"]["sentBills"]) == (0, 0)
    assert [Path(each).exists() for each in told["kept"]["manifests"]] == [True, True]
    assert [status for _, status in seen(home)[0]] == ["PENDING"]
    drop(home, "usage-2.csv", ROW.format(uid=2, gb=5))
    assert close(home, "--approve") == 1
    assert "were not shown yet" in refusal(capsys)
    assert close_reviewed(home, "--format", "jsonl") == 0
    assert [status for _, status in seen(home)[0]] == ["APPROVED"]
    # The files of both closings are there.
    assert sorted(exported(home)) == [10, 15]
    assert {*billed(home), *published(home)} == {15}
    capsys.readouterr()
    assert run(["close-month", MONTH, "--home", str(home)]) == 0
    assert "a file was forgotten" in capsys.readouterr().out


@pytest.mark.long
def test_bills_that_nobody_can_take_back_stay_when_a_month_is_opened_again(home, capsys):
    assert close_reviewed(home) == 0
    with open_stores(Settings(home=home, _env_file=None)) as stores:
        organization = stores.find_organization(None)
        with organization.transaction("test") as transaction:
            [bill], _ = list_bills(transaction, BillFilters(), Page(100, None))
            lock(transaction, bill.id)
    capsys.readouterr()

    assert run(["close-month", MONTH, "--home", str(home), "--reopen", "--reason", "why"]) == 0

    shown = capsys.readouterr().out
    assert "the approval of bills: 0 of the month wait for one again" in shown
    assert "1 bill, locked for ever" in shown
    assert [status for _, status in seen(home)[0]] == ["APPROVED"]


@pytest.mark.slow
def test_who_dies_while_a_month_is_opened_again_has_it_closed_still(home, tmp_path, capsys):
    assert close_reviewed(home) == 0
    arguments = ["close-month", MONTH, "--home", str(home), "--reopen", "--reason", "why"]

    die(tmp_path, "closing.approvals_taken_back", 1, arguments)

    capsys.readouterr()
    assert close(home, "--reopen", "--reason", "why") == 0
    assert loads(capsys.readouterr().out)["undone"] == {"pendingBills": 1}
    assert close(home, "--reopen", "--reason", "why") == 1


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        (("--reopen",), "--reason is required"),
        (("--reason", "why"), "it is only for --reopen"),
        (("--reopen", "--reason", " "), "--reason: ' ' is not allowed: give a reason"),
        (("--reopen", "--reason", "why", "--approve"), "leave it out when you give --reopen"),
        (("--reopen", "--reason", "why", "--reject", "no"), "leave it out when you give --reopen"),
    ],
)
def test_words_about_opening_again_belong_together(home, capsys, options, rule):
    assert close(home, *options) == 1
    assert rule in refusal(capsys)
