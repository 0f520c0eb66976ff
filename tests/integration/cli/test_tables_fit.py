"""Every command fits a terminal of 80 and of 100 columns, over the sample: ids whole, no empty heads."""

import json
import re
import shutil

import pytest

import sample_data
from meterlake.cli import run
from meterlake.cli.app import build
from tests.homes import a_home

MONTH = sample_data.MONTH
WORD = re.compile(r"`[^`]*`\S*|\S+")
UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
# They run until somebody stops them, or are about processes that run.
RUNNING = {"serve", "watch", "worker", "health", "deploy"}
# They print a document, a page, code or a link, or play in homes of their own.
PRINTING = {
    *("config schema", "config export", "demo", "bill document", "bill statement"),
    *("users invite", "users password-link", "customer-link create", "template"),
}
# The others, in an order in which each finds what it is about; some of them several times.
COMMANDS = (
    "init --name Another",
    "status",
    "config apply {configuration} --dry-run",
    "list",
    "list accounts",
    "list plan-templates",
    "list pricings",
    "list account-plans",
    "list aggregations",
    "show organization-config",
    "show plan storage-pro --history",
    "create product --code extra --name Extra",
    "edit product extra --name Extras",
    "delete product extra --yes",
    "ingest {measurements} --dry-run",
    "receipts list",
    "receipts show {source}",
    "receipts uid a41144c1-5fc1-01aa-7794-48b24ae94ba9",
    "rejected list",
    "rejected list --status all",
    "rejected show {rejected}",
    "rejected export {folder}/rows.csv",
    "rejected dismiss {rejected} --because test",
    "rejected reopen {rejected}",
    "rejected requeue --reason UndefinedMeter",
    "aggregate {month}",
    "explain quantity nordwind-logistics stored_gigabytes {month}",
    "explain number storage egress_gigabytes --from {month}-01 --to {month}-31",
    "bill --month {month}",
    "bill list",
    "bill show {bill}",
    "bill explain {bill}",
    "bill explain {bill} 1",
    "bill versions {bill}",
    "bill diff {bill}",
    "bill compare {bill} --with {bill}",
    "bill approve {bill}",
    "bill send {bill}",
    "bill unapprove {bill}",
    "bill xero --month {month}",
    "bill lock {bill} --dry-run",
    "bill delete {bill} --dry-run",
    "bill recalculate {bill}",
    "config apply {credits}",
    "bill credit {bill} --amount 1.25 --reason goodwill",
    "bill debit {bill} --amount 1.25 --description Again",
    "bill delete-line {bill} 1",
    "balance top-up nordwind-logistics prepaid --amount 5",
    "balance list",
    "balance show nordwind-logistics prepaid",
    "bill verify --month {month}",
    "bill review --month {month}",
    "bill what-if --with {prices} --months {month}",
    "bill template {folder}/templates",
    "late",
    "close-month {month}",
    "backfill start retract --uid {uid} --reason test --id staged",
    "backfill list",
    "backfill show staged",
    "backfill rows staged",
    "backfill apply staged",
    "late",
    "backfill revert staged",
    "backfill start retract --uid {uid} --reason test --id dropped",
    "backfill drop dropped",
    "export destinations create local lake --bucket lake",
    "export destinations list",
    "export destinations check lake",
    "export destinations update lake --name Lake",
    "export schedules create usage nightly --every day --period yesterday",
    "export schedules list",
    "export schedules update nightly --name Nightly",
    "export schedules disable nightly",
    "export schedules enable nightly",
    "export schedules run nightly",
    "export schedules delete nightly",
    "export destinations delete lake",
    "export operational --to {folder}/operational",
    "export usage --keep --month {month} --to {folder}/usage",
    "export verify {manifest}",
    "export jobs list",
    "export jobs show {job}",
    "export jobs files {job}",
    "export jobs verify {job}",
    "export jobs download {job} --to {folder}",
    "export jobs cancel {job}",
    "export jobs retry {job}",
    "publish",
    "report --out {folder}/report.html",
    'sql "FROM bill"',
    'sql "SELECT account, amount FROM bill_line LIMIT 3"',
    "events list",
    "events show {event}",
    "events action {event}",
    "config apply {more}",
    "webhooks ping chat --wait 0",
    "webhooks replay chat --since 2026-10-01T00:00:00Z",
    "integrations list",
    "integrations show {run}",
    "integrations delete {integration}",
    "integrations runs",
    "integrations deleted-bills",
    "integrations deliver",
    "inbox add {inbox}",
    "inbox check {inbox}",
    "inbox list",
    "inbox poll",
    "inbox remove {inbox}",
    "lookup load regions {regions}",
    "lookup publish regions",
    "lookup list",
    "mapping check {mapping} {gateway} --rows 3",
    "mapping save {mapping} --name another",
    "mapping list",
    "mapping delete another",
    'aggregation try stored_gigabytes --month {month} --sql "SELECT max(gigabytes) FROM measurements"',
    "uploads ingest",
    "check alerts",
    "check books",
    "check files",
    "check reconciliation",
    "config scale-prices --by 1.07 --plans storage-pro --from 2030-01-01 --dry-run",
    "customer-link list nordwind-logistics",
    "customer-link revoke nordwind-logistics Portal",
    "config scale-prices --by 1.07 --plans storage-pro --from 2030-01-01 --propose one --reason why",
    "config proposals",
    "config show-proposal one --effect",
    "config approve one",
    "config reject one --comment no",
    "config scale-prices --by 1.07 --plans storage-pro --from 2030-01-01 --propose two --reason why",
    "config withdraw two",
    "config propose-again two",
    "config withdraw two",
    "config propose {proposed} --name three --reason why",
    "config approve three",
    "config apply-proposal three",
    "runs list",
    "revenue --by customer --month 2026-09",
    "runs show {run_of_any_kind}",
    "runs cancel {run_of_any_kind}",
    "runs retry {run_of_any_kind}",
    "users list",
    "users grant ada@example.com Administrator",
    "users log",
    "users sign-out ada@example.com",
    "maintain",
    "settings list",
    "settings set snapshot_days 90",
    "settings unset snapshot_days",
    "keys rotate",
    "shard-lake --shards 2",
    "move-lake --lake {folder}/lakes --dry-run",
    "generate --rows 10 --out {folder}/generated.csv",
)
# They are about a home, or about files.
OF_THE_HOME = ("init", "settings", "keys", "generate", "move-lake", "export verify")
# A webhook that nobody listens to, an integration, a lookup table.
PROPOSED = "products: [{code: tools, name: Tools}]"
MORE = """
webhooks:
  - {code: chat, name: Chat, description: Chat, url: "https://chat.example.com/", credentials:
     {type: M3TER_SIGNED_REQUEST, apiKey: key, secret: whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw}}
integrationConfigs:
  - {entityType: Bill, destination: HTTP, name: Books, configData: {url: "https://books.example.com/"}}
lookupTables:
  - {code: regions, name: Regions}
lookupTableRevisions:
  - lookupTableId: regions
    name: First
    fields: [{name: region, type: STRING}, {name: rate, type: NUMBER}]
    keys: [region]
"""
# A reason, and a balance.
CREDITS = """
creditReasons: [{code: goodwill, name: Goodwill}]
balances:
  - {code: prepaid, name: Prepaid, accountId: nordwind-logistics, currency: EUR,
     startDate: 2026-01-01, endDate: 2030-01-01}
"""
# Enough to find what concerns all of them.
QUICK = ("status", "rejected list", "receipts list", "events list", "bill review --month {month}")


def leaves(app, path=()):
    for name in (each for each in app if not each.startswith("-")):
        yield from leaves(app[name], (*path, name))
    if app.default_command is not None:
        yield " ".join(path)


def command_of(line, known):
    words = line.split()
    return next(" ".join(words[:n]) for n in (3, 2, 1) if " ".join(words[:n]) in known)


def test_every_command_is_tried_or_says_why_not():
    known = set(leaves(build()))

    tried = {command_of(line, known) for line in COMMANDS}
    assert tried | RUNNING | PRINTING == known
    assert not tried & (RUNNING | PRINTING)


class Terminal:
    """Runs commands in a home, and knows the names of what is there."""

    def __init__(self, home, folder, capsys):
        self.home, self.folder, self.capsys = home, folder, capsys
        self.org = ["--org", "halvorsen-cloud"]

    def run(self, line, *more):
        words = [each.strip('"') for each in re.findall(r'"[^"]*"|\S+', self._filled(line))]
        no_org = line.startswith(OF_THE_HOME)
        at = ["--home", str(self.home), *([] if no_org else self.org)]
        code = run([*words, *at, *more])
        told = self.capsys.readouterr()
        return code, told.out, told.err

    def _filled(self, line):
        for name in re.findall(r"\{(\w+)\}", line):
            line = line.replace(f"{{{name}}}", str(self._names()[name]()))
        return line

    def _names(self):
        return {
            "month": lambda: MONTH,
            "folder": lambda: self.folder,
            "configuration": lambda: sample_data.CONFIGURATION,
            "measurements": lambda: sample_data.MEASUREMENTS / "12-api-bad-rows.ndjson",
            "prices": self._prices,
            "source": lambda: self._first("receipts list", "identity"),
            "rejected": lambda: self._first("rejected list", "id"),
            "uid": lambda: self._first('sql "SELECT uid FROM storage ORDER BY uid LIMIT 1"', "uid"),
            "bill": lambda: self._first("bill list", "id"),
            "run_of_any_kind": lambda: self._first("runs list", "id"),
            "job": lambda: self._first("export jobs list", "id"),
            "credits": lambda: self._write("credits.yaml", CREDITS),
            "more": lambda: self._write("more.yaml", MORE),
            "proposed": lambda: self._write("proposed.yaml", PROPOSED),
            "regions": lambda: self._write("regions.csv", "region,rate\neu,1.5\n"),
            "inbox": self._inbox,
            "mapping": lambda: next(sample_data.MAPPINGS.iterdir()),
            "gateway": lambda: next(sample_data.MEASUREMENTS.glob("*gateway*")),
            "manifest": lambda: next(self.folder.rglob("*manifest*.json")),
            "run": lambda: self._first("integrations runs", "id"),
            "integration": lambda: self._first("integrations list", "id"),
            "event": lambda: self._first("events list", "id"),
        }

    def _first(self, line, member):
        _, out, _ = self.run(line, "--json")
        return json.loads(out.splitlines()[0])[member]

    def _inbox(self):
        """A folder with a file that has come."""
        folder = self.folder / "inbox"
        if not folder.exists():
            folder.mkdir()
            shutil.copy(sample_data.MEASUREMENTS / "12-api-bad-rows.ndjson", folder)
        return folder

    def _prices(self):
        return self._write(
            "prices.yaml",
            "plans: [{code: storage-enterprise, name: Storage Enterprise, planTemplateId: storage, standingCharge: 99}]",
        )

    def _write(self, name, text):
        file = self.folder / name
        file.write_text(text)
        return file


def check_fits(line, out, width):
    lines = out.splitlines()
    for text in lines:
        # Commands, and what no line has room for, are for terminals to break.
        is_long = max((len(word) for word in WORD.findall(text)), default=0) > width // 2
        is_code = text.startswith(("  ", "SELECT ", "FROM ", "WHERE ", "WITH ", "GROUP ", "{"))
        assert len(text) <= width or is_long or is_code, (line, text)
    for head, rule, row in zip(lines, lines[1:], [*lines[2:], ""], strict=False):
        if rule and not rule.strip("─"):
            assert head.strip(), (line, "a rule without a heading")
            assert row.strip(), (line, "a heading without rows")
            assert len(rule) <= width, (line, rule)


def check_ids(line, out, rows):
    """What `--json` calls the id of a row stands in the table: whole, or its first eight digits."""
    whole = out.replace("\n", " ")
    for row in rows:
        # An inbox goes by its address.
        id_ = row["url"] if line == "inbox list" else row.get("code", row.get("id"))
        if id_ is not None and not (UUID.fullmatch(id_) and id_[:8] in whole):
            assert id_ in whole, (line, id_)
        if id_ is not None and UUID.fullmatch(id_) and id_ not in whole:
            assert re.search(rf" {id_[:8]} ", whole), (line, id_)


@pytest.mark.slow
@pytest.mark.parametrize("width", [80, 100])
def test_every_command_fits(sample_home, tmp_path, capsys, monkeypatch, width):
    home = shutil.copytree(sample_home, tmp_path / "home")
    monkeypatch.setenv("COLUMNS", str(width))
    terminal = Terminal(home, tmp_path, capsys)

    for line in COMMANDS:
        code, out, err = terminal.run(line)
        assert code in {0, 1}, (line, err)
        check_fits(line, out, width)
        if line.split()[-1] in {"list", "runs"}:
            _, listed, _ = terminal.run(line, "--json")
            check_ids(line, out, map(json.loads, listed.splitlines()))


@pytest.mark.parametrize("line", QUICK)
def test_what_people_look_at_most_fits(sample_home, tmp_path, capsys, monkeypatch, line):
    monkeypatch.setenv("COLUMNS", "80")
    terminal = Terminal(sample_home, tmp_path, capsys)

    _, out, _ = terminal.run(line)

    assert "─" in out
    check_fits(line, out, 80)
    if line.endswith("list"):
        _, listed, _ = terminal.run(line, "--json")
        check_ids(line, out, map(json.loads, listed.splitlines()))


def test_why_a_file_failed_stands_below_the_table(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    (tmp_path / "usage.csv").write_text("colour,size\nred,1\n")
    with a_home(tmp_path / "home") as home:
        assert run(["ingest", str(tmp_path / "usage.csv"), "--home", str(home.stores.home)]) == 1

    out = capsys.readouterr().out
    table, _, told = out.partition("\n\n")
    assert "detail" not in table
    assert told.startswith("usage.csv: ")
    # Sentences fill their lines.
    assert len(out.splitlines()) < 14
    check_fits("ingest", out, 80)


EMPTY = (
    *("rejected list", "receipts list", "bill list", "late", "backfill list", "inbox list"),
    *("integrations runs", "integrations list", "lookup list", "uploads ingest", "check alerts"),
    *("integrations deleted-bills", "balance list"),
    *("export jobs list", "export schedules list", "export destinations list"),
)


@pytest.mark.long
def test_a_list_of_nothing_is_a_sentence(tmp_path, capsys):
    with a_home(tmp_path) as home:
        for line in EMPTY:
            assert run([*line.split(), "--home", str(home.stores.home)]) == 0
            out = capsys.readouterr().out
            assert re.match("N|There is no", out), (line, out)
            assert "─" not in out, (line, out)
