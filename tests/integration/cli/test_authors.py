"""Every command that writes for somebody writes for whom `--as` or METERLAKE_USER names."""

import inspect
import json
import re
from collections import Counter
from types import CodeType, FunctionType

import pytest
from sqlalchemy import select

from meterlake.cli import run
from meterlake.cli.app import build
from meterlake.model.configuration.access import Principal, PrincipalType, ServiceUser
from meterlake.model.values.ids import UNNAMED
from meterlake.model.values.period import Month
from meterlake.pipeline.billing.bills import delete_bill
from meterlake.pipeline.billing.jobs.jobs import bill
from meterlake.pipeline.billing.named_bills import find_bills
from meterlake.stores.state.access.access import grant
from meterlake.stores.state.core.tables import METADATA
from tests.bills import a_home_to_bill, use
from tests.deliveries import add_runs, content_for, new_webhook, send_due, update_webhook
from tests.homes import configure
from tests.integration.cli.test_lookups import CONFIGURATION
from tests.integration.cli.test_tables_fit import command_of, leaves
from tests.people import allow, join, policy

MONTH = "2026-09"
MAPPING = """
files: ["sizes*.csv"]
account: {column: client}
ts: time
measurements:
  - meter: egress
    fields: {measure.gb: size, where.region: region}
"""
# They read, or print.
READING = {
    *(
        "template",
        "status",
        "receipts list",
        "receipts show",
        "receipts uid",
        "rejected list",
        "rejected show",
    ),
    *(
        "rejected export",
        "explain quantity",
        "explain number",
        "bill list",
        "bill show",
        "bill explain",
    ),
    *(
        "bill versions",
        "bill diff",
        "bill compare",
        "bill verify",
        "bill review",
        "bill what-if",
        "bill template",
    ),
    *(
        "balance list",
        "balance show",
        "bill document",
        "bill xero",
        "backfill list",
        "backfill show",
        "backfill rows",
        "export destinations list",
    ),
    *("export destinations check", "export schedules list", "export jobs list"),
    *("export jobs show", "export jobs download", "export jobs files", "export jobs verify"),
    *("export verify", "sql", "events list"),
    *("events show", "integrations list", "integrations runs", "integrations show"),
    *("list", "show", "balance list", "balance show", "customer-link list", "runs list"),
    *("runs show", "users list", "users log", "revenue"),
    *("inbox list", "inbox check", "lookup list", "check books", "report"),
    *(
        "config schema",
        "config export",
        "config proposals",
        "config show-proposal",
        "mapping check",
        "mapping list",
        "aggregation try",
        "generate",
    ),
    *("check reconciliation", "check alerts", "check files", "settings list", "health"),
}
# They work for the home, or do what a worker does by itself: nothing that they write has an author.
FOR_NOBODY = {
    *("init", "demo", "settings set", "settings unset", "keys rotate", "move-lake", "shard-lake"),
    *("serve", "watch", "worker", "deploy", "maintain", "publish", "integrations deliver"),
    *("uploads ingest", "inbox poll", "aggregate"),
}
# They ask who gives them, and what they write does not say it: rows come from a file, a job keeps who
# asked for it, of inboxes and mappings nothing is left, and of sign-ins only when they were ended.
WITHOUT_AUTHOR = {
    "ingest {folder}/regions.csv": "measurements:upload on measurements",
    "rejected requeue": "measurements:upload on measurements",
    "inbox remove {folder}/inbox": "measurements:upload on measurements",
    "export jobs cancel some": "config:update on dataexport",
    "export jobs retry some": "config:update on dataexport",
    "users sign-out ada@example.com": "config:update on user",
    "mapping delete flights": "config:delete on mapping",
}
# The others, in an order in which each finds what it is about, with what the policies of who gives it
# must allow: the same as of the API's operation.
WRITING = {
    "config apply {folder}/tables.yaml": "config:create on ",
    "create product --code extra --name Extra": "config:create on product",
    "edit product extra --name Extras": "config:update on product",
    "delete product extra --yes": "config:delete on product",
    "create product --code other --name Other": "config:create on product",
    "lookup load regions {folder}/regions.csv": "config:update on lookuptablerevision",
    "lookup publish regions": "config:update on lookuptablerevision",
    "rejected dismiss {rejected} --because test": "measurements:upload on measurements",
    "rejected reopen {rejected}": "measurements:upload on measurements",
    "bill --month {month}": "config:create on billjob",
    "config apply {folder}/credits.yaml": "config:create on ",
    # A new version of a bill keeps who wrote the last one: one user changes it.
    "bill credit bolt/{month} --amount 1 --reason goodwill": "config:create on bill",
    "balance top-up bolt prepaid --amount 5": "config:create on balancetransaction",
    "bill debit bolt/{month} --amount 1 --description Again": "config:create on bill",
    "users invite bo@acme.example --first-name Bo --last-name Lind": "config:create on invitation",
    "bill delete-line bolt/{month} {line}": "config:delete on bill",
    "bill --month {month} --approve": "config:update on bill",
    "bill unapprove acme/{month}": "config:update on bill",
    "bill approve acme/{month}": "config:update on bill",
    "bill recalculate bolt/{month}": "config:create on bill",
    "bill statement acme {month} --to {folder}/statement.csv": "config:retrieve on bill",
    "backfill start retract --uid 1 --reason twice --id one": "config:create on backfill",
    "backfill apply one": "config:update on backfill",
    "backfill revert one": "config:update on backfill",
    "backfill start retract --uid 1 --reason twice --id two": "config:create on backfill",
    "backfill drop two": "config:update on backfill",
    "late --apply": "config:create on billjob",
    "bill delete bolt/{month} --yes": "config:delete on bill",
    # Whoever approved this bill stands in its event: the same user locks it.
    "bill lock acme/{month} --yes": "config:update on bill",
    "close-month {month}": "config:update on bill",
    "balance top-up bolt prepaid --amount 7": "config:create on balancetransaction",
    "export destinations create local lake --bucket lake": "config:create on exportdestination",
    "export destinations update lake --name Lake": "config:update on exportdestination",
    "export schedules create usage nightly --every day --period yesterday": "config:create on exportschedule",
    "export schedules update nightly --name Nightly": "config:update on exportschedule",
    "export schedules disable nightly": "config:update on exportschedule",
    "export schedules enable nightly": "config:update on exportschedule",
    "export schedules run nightly": "config:update on exportschedule",
    "export schedules delete nightly": "config:delete on exportschedule",
    "export destinations delete lake": "config:delete on exportdestination",
    "export operational --to {folder}/operational": "config:export on dataexport",
    "export usage --month {month} --to {folder}/usage": "measurements:export on dataexport",
    "events action {event}": "config:update on event",
    "inbox add {folder}/inbox": "measurements:upload on measurements",
    "mapping save {folder}/sizes.yaml": "config:update on mapping",
    "webhooks ping chat --wait 0": "config:update on webhookdestination",
    "webhooks replay chat --since 2026-01-01": "config:update on webhookdestination",
    "webhooks replay --run {run}": "config:update on integrationrun",
    "integrations deleted-bills --take-back": "config:update on integrationrun",
    "integrations delete {integration}": "config:delete on integrationconfig",
    "config scale-prices --by 1.07 --plans basic --from 2030-01-01": "config:create on pricing",
    "config propose {folder}/proposed.yaml --name one --reason why": "config:create on changeproposal",
    "config approve one": "config:update on changeproposal",
    "config reject one --comment no": "config:update on changeproposal",
    # Who made it withdraws it.
    "config propose {folder}/proposed.yaml --name two --reason why": "config:create on changeproposal",
    "config approve two": "config:update on changeproposal",
    "config withdraw two": "config:create on changeproposal",
    "config propose-again two": "config:create on changeproposal",
    "config propose {folder}/proposed.yaml --name three --reason why": "config:create on changeproposal",
    "config approve three": "config:update on changeproposal",
    "config apply-proposal three": "config:update on changeproposal",
    "customer-link create acme --name Portal": "config:create on customerlink",
    "customer-link revoke acme Portal": "config:update on customerlink",
    "runs cancel {job}": "config:update on run",
    "runs retry {job}": "config:update on run",
    "bill send acme/{month}": "config:update on bill",
    "users password-link ada@example.com": "config:update on user",
    "users grant ada@example.com ReadOnly": "config:update on permissionpolicy",
}

CREDITS = """
creditReasons: [{code: goodwill, name: Goodwill}]
balances:
  - {code: prepaid, name: Prepaid, accountId: bolt, currency: USD, startDate: 2026-01-01,
     endDate: 2030-01-01}
"""
ASKS = re.compile(r"\boptions\.permitted\(")
AUTHOR = re.compile(r"[A-Z]+_[0-9a-f]{8}-[0-9a-f-]{27}")
# A deletion leaves no row that says who, nor does a month without late usage; of an event, the
# contract keeps only when somebody saw to it. A deleted bill takes more names away than it leaves:
# its last version says who deleted it. A run that is complete is not cancelled, and nothing is sent
# without a mail server. A mapping is a file, which says itself who saved it.
WITHOUT_ROWS = {
    "mapping save",
    *("export schedules delete", "export destinations delete", "late", "events action"),
    *("bill delete", "bill delete-line", "delete", "runs cancel", "runs retry", "bill send"),
}


@pytest.mark.long
def test_every_command_says_whether_somebody_writes():
    known = set(leaves(build()))
    writing = {command_of(line, known) for line in WRITING}

    without = {command_of(line, known) for line in WITHOUT_AUTHOR}

    assert READING | FOR_NOBODY | without | writing == known
    assert len(READING) + len(FOR_NOBODY) + len(without) + len(writing) == len(known)
    assert without | writing == {name for name in known if asks_who(command_named(name))}


def command_named(name):
    app = build()
    for word in name.split():
        app = app[word]
    return app.default_command


def asks_who(function, known=None):
    """Whether a command, or a function that it names, asks who gives it."""
    known = known or set()
    known.add(function)
    if ASKS.search(inspect.getsource(function)):
        return True
    named = (function.__globals__.get(name) for name in names_in(function.__code__))
    ours = [
        each
        for each in named
        if isinstance(each, FunctionType) and each.__module__.startswith("meterlake.cli")
    ]
    return any(asks_who(each, known) for each in ours if each not in known)


def names_in(code):
    yield from code.co_names
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from names_in(inner)


def authors(home):
    """How often each author stands in State and in the lake."""
    found = Counter()
    with home.stores.state.reading_home() as connection:
        for row in (
            row for table in METADATA.sorted_tables for row in connection.execute(select(table))
        ):
            for name, value in row._mapping.items():
                own = name == "author" or name.endswith("_by")
                # Events and jobs say it within their documents.
                found.update([value] if own else AUTHOR.findall(str(value)))
    with home.organization.lake.reader() as connection:
        for table in ("dismissal", "backfill_step"):
            rows = connection.execute(f"SELECT author FROM lake.{table}").fetchall()
            found.update(author for [author] in rows)
    return found


class Commands:
    """Runs commands in a home, and knows the names of what is there."""

    def __init__(self, home, folder, capsys):
        self.home, self.folder, self.capsys = home, folder, capsys

    def run(self, line, *more):
        for name in re.findall(r"\{(\w+)\}", line):
            line = line.replace(f"{{{name}}}", str(self._value(name)))
        code = run([*line.split(), "--home", str(self.home.stores.home), *more])
        told = self.capsys.readouterr()
        return code, told.out, told.err

    def _value(self, name):
        if name == "line":
            _, out, _ = self.run("bill show bolt {month}", "--json")
            return json.loads(out)["lineItems"][-1]["sequenceNumber"]
        if name in {"folder", "month"}:
            return {"folder": self.folder, "month": MONTH}[name]
        listing = {
            "event": "events list",
            "job": "runs list",
            "integration": "integrations list",
            "rejected": "rejected list --status all",
            "run": "integrations runs --status DISABLED",
        }[name]
        _, out, _ = self.run(listing, "--json")
        return json.loads(out.splitlines()[0])["id"]


@pytest.fixture
def home(tmp_path):
    (tmp_path / "tables.yaml").write_text(CONFIGURATION)
    (tmp_path / "regions.csv").write_text("region,rate\neu,2\n")
    (tmp_path / "credits.yaml").write_text(CREDITS)
    (tmp_path / "proposed.yaml").write_text("products: [{code: tools, name: Tools}]")
    (tmp_path / "inbox").mkdir()
    (tmp_path / "sizes.yaml").write_text(MAPPING)
    with a_home_to_bill(tmp_path) as opened:
        use(opened, ("bad", "acme", "no number"))
        all_ = policy(opened.stores.state, opened.org_id, allow())
        opened.ada = join(opened.stores.state, opened.org_id, permissionPolicyIds=[all_])
        with opened.organization.transaction("test") as transaction:
            opened.importer = transaction.create(ServiceUser(name="Importer")).id
            grant(transaction, all_, opened.importer, PrincipalType.SERVICEUSER)
        leave_bill_behind(opened)
        miss_message(opened)
        yield opened


def leave_bill_behind(home):
    """A bill that another system has is deleted before an integration could take it back."""
    bill(home.organization, Month(2026, 7))
    [id_] = find_bills(home.organization, ["acme", "2026-07"])
    mapping = {"m3terEntity": "Bill", "m3terId": id_, "externalSystem": "HTTP"}
    configure(
        home.organization,
        externalMappings=[{**mapping, "externalTable": "Invoice", "externalId": "in_9"}],
    )
    delete_bill(home.organization, "test", id_)
    books = {"entityType": "Bill", "destination": "HTTP", "name": "Books"}
    address = {"url": "https://books.example.com/"}
    configure(home.organization, integrationConfigs=[{**books, "configData": address}])


def miss_message(home):
    """A message is not sent, since its webhook is not active at that time."""
    url = "https://chat.example.com/"
    webhook = new_webhook(home.organization, url, name="Chat", code="chat", active=False)
    add_runs(home.organization, [content_for(webhook)])
    send_due(home.stores)
    update_webhook(home.organization, webhook, code="chat", active=True)


@pytest.mark.long
def test_everything_that_is_written_has_the_author_who_was_named(
    home, tmp_path, capsys, monkeypatch
):
    monkeypatch.setenv("METERLAKE_EXPORT_FOLDER", str(tmp_path))
    commands = Commands(home, tmp_path, capsys)
    eve = join(home.stores.state, home.org_id, "eve@example.com")
    known = set(leaves(build()))
    named = {"ada@example.com": f"USER_{home.ada}", "Importer": ""}
    named["Importer"] = Principal(PrincipalType.SERVICEUSER, home.importer, "", "").author

    for line, needed in WITHOUT_AUTHOR.items():
        assert_refused(commands, line, needed)
    for number, (line, needed) in enumerate(WRITING.items()):
        name = [*named][number % 2]
        before = authors(home)
        assert_refused(commands, line, needed)
        code, out, err = commands.run(line, "--as", name)
        assert code in {0, 1}, (line, err)
        assert "Error" not in err, (line, err)
        new = authors(home) - before
        assert not {UNNAMED, f"USER_{eve}"} & new.keys(), (line, new)
        assert [*named.values()][1 - number % 2] not in new, (line, new)
        command = command_of(line, known)
        # What a backfill keeps beside its rows, its history shows.
        assert command in WITHOUT_ROWS or new[named[name]] or name in out, (line, new, out, err)


def assert_refused(commands, line, needed):
    """Somebody without any policy may not, and is told what for."""
    code, _, err = commands.run(line, "--as", "eve@example.com")
    assert code == 1, line
    assert f"--as: no permission for {needed}" in err, (line, err)


@pytest.mark.long
def test_a_service_user_is_named_by_its_id_or_its_name(home, tmp_path, capsys, monkeypatch):
    commands = Commands(home, tmp_path, capsys)
    author = Principal(PrincipalType.SERVICEUSER, home.importer, "", "").author

    monkeypatch.setenv("METERLAKE_USER", home.importer)
    code, out, err = commands.run("inbox add {folder}/inbox", "--json")
    assert (code, json.loads(out)["author"]) == (0, author), err
    assert "move, by Importer" in commands.run("inbox list")[1]
    monkeypatch.setenv("METERLAKE_USER", "importer")
    assert commands.run("bill --month {month} --json")[0] == 0
    _, out, _ = commands.run("bill show acme {month} --json")
    assert json.loads(out.splitlines()[0])["createdBy"] == author
    assert commands.run("bill --month {month} --approve")[0] == 0
    assert "approved by  Importer" in commands.run("bill show acme {month}")[1]


@pytest.mark.long
def test_names_of_several_are_asked_for_and_those_of_nobody_listed(home, tmp_path, capsys):
    commands = Commands(home, tmp_path, capsys)
    with home.organization.transaction("test") as transaction:
        other = transaction.create(ServiceUser(name="importer")).id

    code, _, err = commands.run("status", "--as", "Importer")
    assert code == 1
    assert "several users have this name; give one of " in err
    assert other in err
    assert (
        "this organization has: ada@example.com, Administrator, Importer, importer"
        in (commands.run("status", "--as", "nobody")[2])
    )
