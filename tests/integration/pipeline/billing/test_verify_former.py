"""What bills said before is verified on request, with the version that said it."""

import pytest
from sqlalchemy import text

from meterlake.cli import run
from meterlake.model.errors import NotFound
from meterlake.model.values import wire
from meterlake.model.values.period import Month
from meterlake.pipeline.billing.bills import delete_bill
from meterlake.pipeline.billing.jobs.jobs import bill
from meterlake.pipeline.billing.verification.verify import VerifyChoice, verify_bills
from tests.bills import a_home_to_bill, use

pytestmark = pytest.mark.usefixtures("home_database")

SEPTEMBER = Month(2026, 9)


def make_versions(home):
    """The bill of acme said three things, that of bolt one."""
    bill(home.organization, SEPTEMBER)
    for uid in ("8", "9"):
        home.clock.advance(days=1)
        use(home, (uid, "acme", 1))
        bill(home.organization, SEPTEMBER)


@pytest.fixture
def home(tmp_path):
    with a_home_to_bill(tmp_path, make_versions) as opened:
        opened.clock.advance(days=2)
        yield opened


def verify(home, *ids, former=True):
    return verify_bills(home.organization, VerifyChoice(bill_ids=ids, former=former))


def sql(home, statement, **values):
    with home.organization.transaction("someone") as transaction:
        found = transaction.connection.execute(text(statement), values)
        return found.all() if found.returns_rows else found.rowcount


def bill_of(home, code):
    [id_] = [id_ for id_, each in home.account_codes().items() if each == code]
    [(found,)] = sql(home, "SELECT id FROM bill WHERE account_id = :id", id=id_)
    return found


@pytest.mark.long
def test_former_contents_are_what_they_were(home):
    found = verify(home)

    assert (found.verified, found.former, found.expired) == (2, 2, 0)
    assert found.differences == ()
    assert verify(home, former=False).to_wire().keys().isdisjoint({"former", "expired"})


@pytest.mark.long
def test_a_former_line_that_was_altered_is_named_with_its_version(home):
    [(key, body)] = sql(
        home,
        "SELECT key, body FROM bill_version_line WHERE version = 2 AND key LIKE 'USAGE%'",
    )
    changed = wire.dumps_sorted({**wire.loads(body), "units": 7})
    sql(
        home,
        "UPDATE bill_version_line SET body = :b WHERE key = :k AND version = 2",
        b=changed,
        k=key,
    )

    [found] = verify(home).differences

    assert (found.bill_id, found.version, found.name) == (bill_of(home, "acme"), 2, key)
    assert (found.field, found.stored) == ("units", 7)
    assert verify(home, former=False).is_same
    assert found.to_wire()["version"] == 2
    assert str(found).startswith(f"bill {found.bill_id}, version 2: line {key} units: stored 7")


@pytest.mark.long
def test_what_a_deleted_bill_said_is_verified(home):
    id_ = bill_of(home, "acme")
    delete_bill(home.organization, "ann", id_)

    found = verify(home, id_)

    assert (found.verified, found.former) == (0, 3)
    assert found.is_same
    with pytest.raises(NotFound):
        verify(home, id_, former=False)


@pytest.mark.long
def test_contents_whose_snapshot_is_gone_are_counted(home):
    sql(
        home,
        "UPDATE bill_calculation SET snapshot = 999 WHERE id IN"
        " (SELECT calculation_id FROM bill_version)",
    )

    found = verify(home, bill_of(home, "acme"))

    assert (found.former, found.expired) == (0, 2)
    assert found.is_same


@pytest.mark.long
def test_the_command_looks_at_former_contents_on_request(home, capsys):
    command = ["bill", "verify", "--all", "--home", str(home.stores.home)]

    assert run([*command, "--former"]) == 0
    assert "2 bills verified, 0 differ; 2 former contents" in capsys.readouterr().out
    assert run(command) == 0
    assert "former" not in capsys.readouterr().out
