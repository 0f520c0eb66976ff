"""`meterlake export`: what it writes and prints, and how it fails."""

import gzip
import json
from datetime import UTC, datetime, timedelta

import pytest

from meterlake.cli import run
from tests.homes import CALLS, EGRESS, HEADER, a_home, configure, csv_row

NIGHTLY = ["usage", "nightly", "--every", "day", "--offset", "2", "--period", "yesterday"]
BILLS = ["operational", "weekly", "--cron", "0 6 * * MON", "--type", "bills"]


@pytest.fixture(scope="module")
def small_home(tmp_path_factory):
    """One home for all tests; each makes jobs and schedules of its own."""
    with a_home(tmp_path_factory.mktemp("export")) as home:
        # Exports show what is there at the time of the real clock; so do the commands.
        home.clock.time = datetime.now(UTC) - timedelta(hours=1)
        configure(home.organization, meters=[EGRESS, CALLS], features={"preview": True})
        rows = csv_row("a", 1.5) + csv_row("b", 2, region="us") + csv_row("c", 4, account="bolt")
        home.ingest("usage.csv", HEADER + rows)
        return home.stores.home


@pytest.fixture
def at(small_home):
    return ["--home", str(small_home)]


@pytest.fixture
def export(small_home, capsys):
    """Runs a command with --json; its lines."""

    def export(*command):
        assert run(["export", *command, "--home", str(small_home), "--json"]) == 0
        return [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    return export


def written(folder):
    """The rows of all JSONL files below a folder."""
    files = sorted(folder.rglob("*.jsonl.gz"))
    return [
        json.loads(line)
        for file in files
        for line in gzip.decompress(file.read_bytes()).splitlines()
    ]


def uids(folder):
    return [row["uid"] for row in written(folder)]


@pytest.mark.parametrize(
    "command",
    [
        ["usage", "--month", "2026-13"],
        ["usage", "--since", "yesterday", "--until", "2026-10-01"],
        ["usage", "--since", "2026-10-01"],
        ["usage", "--since", "2026-10-02", "--until", "2026-10-01"],
        ["usage", "--period", "tomorrow"],
        ["usage", "--period", "yesterday", "--month", "2026-10"],
        ["usage", "--meter", "nothing"],
        ["usage", "--account", "nothing"],
        ["usage", "--filter", "egress.region"],
        ["usage", "--filter", "egress.gb=1"],
        ["usage", "--filter", "egress=1"],
        ["usage", "--aggregate", "egress.nothing:SUM"],
        ["usage", "--aggregate", "egress.gb:MEDIAN"],
        ["usage", "--group", "day"],
        ["usage", "--type", "bills"],
        ["usage", "--file-bytes", "1023"],
        ["operational", "--format", "parquet", "--file-bytes", "0"],
        ["usage", "--destination", "nothing"],
        ["operational", "--type", "nothing"],
        ["operational", "--changes-since", "soon"],
        ["operational", "--changes-since", "2099-01-01"],
        ["schedules", "create", "usage", "x", "--every", "day"],
        ["schedules", "create", "usage", "x", "--every=day", "--period=today", "--type=bills"],
        ["schedules", "create", "usage", "x", "--every", "fortnight", "--period", "today"],
        ["schedules", "create", "usage", "x", "--every", "5 minutes", "--period", "today"],
        ["schedules", "create", "usage", "x", "--period", "today"],
        ["schedules", "create", "operational", "x", "--every", "day", "--type", "nothing"],
        ["schedules", "enable", "nothing"],
        ["schedules", "run", "nothing"],
        ["schedules", "update", "nothing", "--name", "x"],
        ["destinations", "update", "nothing", "--name", "x"],
        ["jobs", "show", "nothing"],
        ["jobs", "cancel", "nothing"],
        ["jobs", "download", "nothing"],
        ["jobs", "list", "--schedule", "nothing"],
        ["destinations", "create", "s3", "x", "--bucket", "abc"],
        ["destinations", "check", "nothing"],
    ],
)
def test_what_cannot_be_done_is_one_line_of_error(at, capsys, command):
    assert run(["export", *command, *at]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("usage --since 2026-10-01", "--until is required"),
        ("usage --until 2026-10-01", "--since is required"),
        ("usage --since 2026-10-02 --until 2026-10-01", "--until: '2026-10-01T00:00:00Z' is not"),
        ("usage --since 2026-10-02 --until 2026-10-01", "after --since 2026-10-02T00:00:00Z"),
        ("usage --since soon --until 2026-10-01", "or an instant such as 2026-10-05T10:30:00Z"),
        (
            "operational --changes-since soon",
            "--changes-since: 'soon' is not allowed: it must be a day",
        ),
        ("operational --changes-since 2099-01-01", "--changes-since: '2099-01-01' is not"),
        ("usage --period tomorrow", "--period: 'tomorrow' is not allowed: it must be one of "),
        (
            "usage --period today --month 2026-10",
            "--period: 'today' is not allowed: give a month, or",
        ),
        ("usage --since 2026-10-01 --until 2026-10-02 --month 2026-09", "--month: '2026-09' is"),
        (
            "usage --filter egress.gb=1",
            "--filter: 'gb' is not allowed: it must be a field of texts",
        ),
        (
            "usage --filter egress=1",
            "--filter: 'egress' is not allowed: it must be a meter and one of its",
        ),
        (
            "usage --filter egress.region",
            "--filter: 'egress.region' is not allowed: write it as meter.field=",
        ),
        (
            "usage --aggregate egress.gb",
            "--aggregate: 'egress.gb' is not allowed: write it as meter.field:FUN",
        ),
        ("usage --aggregate egress.gb:MEDIAN", "with one of SUM, MIN, MAX, COUNT"),
        (
            "usage --aggregate egress.no:SUM",
            "--aggregate: 'egress.no' is not allowed: it must be a meter",
        ),
        (
            "usage --aggregate egress.gb:UNIQUE",
            "--aggregate: 'UNIQUE' is not allowed: a MEASURE has no UNIQUE",
        ),
        ("usage --group day", "--aggregate is required"),
        ("usage --group egress.no --aggregate egress.gb:SUM", "--group: 'egress.no' is not"),
        (
            "usage --type quantities --filter egress.region=eu",
            "--filter: 'egress.region=eu' is not",
        ),
        (
            "usage --type quantities --aggregate egress.gb:SUM",
            "leave it out where --type has quantities",
        ),
        (
            "usage --type bills",
            "--type: 'bills' is not allowed: it must be one of measurements, quantities",
        ),
        ("usage --file-bytes 1", "--file-bytes: 1 is not allowed: it must be at least 1024"),
        ("usage --to=", "--to: '' is not allowed: it must be a folder, s3://"),
        ("usage --to gs:/bucket", "--to: 'gs:/bucket' is not allowed: it must be a folder, s3://"),
        ("usage --month 2026-13", "--month: '2026-13' is not allowed"),
        (
            "operational --month 2026-10 --type accounts",
            "--month: '2026-10' is not allowed: leave it out",
        ),
        (
            "usage --format jsonl --spreadsheet",
            "--spreadsheet is not allowed here: leave it out where",
        ),
        ("usage --period tomorrow", "week-to-date"),
        ("usage --group minute", "account, day, hour, week, month, quarter, or a meter and one of"),
        (
            "usage --meter calls --filter egress.region=eu",
            "'egress.region' is not allowed: it must be a field",
        ),
        (
            "usage --meter calls --aggregate egress.gb:SUM",
            "'egress.gb' is not allowed: it must be a field of",
        ),
        (
            "usage --aggregate calls.n:SUM --group egress.region",
            "'egress.region' is not allowed: it must be a field of a meter that --aggregate names",
        ),
        ("jobs list --since x", "--since: 'x' is not allowed: it must be a day such as"),
        ("jobs list --until x", "--until: 'x' is not allowed: it must be a day such as"),
        ("schedules create usage x --every day", "--period is required"),
        ("schedules create usage x --period today", "exactly one of --every and --cron"),
        (
            "schedules create usage x --every day --period today --type bills",
            "--type: ['BILLS'] is",
        ),
        ("schedules create operational x --every day", "--type is required"),
        ("schedules create operational x --every day --type bills --period today", "--period: '"),
        ("schedules create operational x --every day --type no", "--type: 'no' is not allowed"),
        (
            "schedules create usage x --every=5days --period today",
            "--every: '5days' is not allowed",
        ),
        ("schedules create usage x --every=day --offset=24 --period=today", "--offset: 24 is not"),
        ("schedules create usage x --cron=daily --period=today", "--cron: 'daily' is not allowed"),
        ("destinations create s3 x --bucket abc", "--role-arn is required"),
        ("destinations create s3 x --bucket abc --role-arn me", "--role-arn: 'me' is not allowed"),
        (
            "destinations create local x --bucket abc --pool p",
            "it has no meaning where the type is LOCAL",
        ),
        ("destinations create local x --bucket abc --prefix a//b", "--prefix: 'a//b' is not"),
        (
            "destinations create local x --bucket=-abc",
            "--bucket: '-abc' is not allowed: it must be made of letters",
        ),
    ],
)
def test_what_is_wrong_is_told_by_the_option(at, capsys, command, told):
    assert run(["export", *command.split(), *at]) == 1
    assert told in capsys.readouterr().err


@pytest.mark.parametrize("limit", ["0", "-1", "some"])
def test_a_list_has_at_least_one_row(at, capsys, limit):
    assert run(["export", "jobs", "list", f"--limit={limit}", *at]) == 2
    assert "--limit" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (["--month", "2026-09", "--type", "measurements"], ["a", "b", "c"]),
        (["--since", "2026-09-03", "--until", "2026-09-04"], ["a", "b", "c"]),
        (["--since", "2026-09-03T10:00:00.000001Z", "--until", "2026-10-01"], []),
        (["--meter", "egress", "--account", "bolt"], ["c"]),
        (["--filter", "egress.region=us", "--filter", "egress.region=mars"], ["b"]),
        (["--period", "today"], []),
    ],
)
def test_usage_is_chosen_in_words(export, tmp_path, command, expected):
    [manifest] = export("usage", "--format", "jsonl", "--to", str(tmp_path), *command)

    assert sorted(uids(tmp_path)) == expected
    assert manifest["rows"] == len(expected)


@pytest.mark.long
def test_usage_is_folded_and_grouped(export, tmp_path):
    command = ["--aggregate", "egress.gb:sum", "--group", "account", "--group", "month"]
    export(
        "usage",
        "--format",
        "jsonl",
        "--to",
        str(tmp_path),
        "--since",
        "2026-09-01",
        "--until",
        "2026-10-01",
        *command,
    )

    assert sorted(row["measure.gb.SUM"] for row in written(tmp_path)) == [3.5, 4]


@pytest.mark.long
def test_what_is_kept_is_downloaded(export, tmp_path, at, capsys):
    [manifest] = export("operational", "--type", "meters", "--type", "accounts", "--keep")
    job = manifest["jobId"]

    [shown] = export("jobs", "show", job)
    assert (shown["status"], shown["result"]["rows"]) == ("SUCCEEDED", 4)
    [saved] = export("jobs", "download", job, "--to", str(tmp_path / "new"))
    assert saved["path"].endswith(f"{job}.zip")
    assert (tmp_path / "new" / f"{job}.zip").stat().st_size > 0
    assert run(["export", "jobs", "cancel", job, *at]) == 1
    assert "has ended already: it has succeeded" in capsys.readouterr().err
    assert run(["export", "jobs", "retry", job, *at]) == 1
    assert "has not failed: it has succeeded" in capsys.readouterr().err
    file = tmp_path / "file"
    file.touch()
    for folder in (file, file / "below"):
        assert run(["export", "jobs", "download", job, "--to", str(folder), *at]) == 1
        assert (
            "is not allowed: it must be a folder, or a path at which one can"
            in capsys.readouterr().err
        )


@pytest.mark.long
def test_a_schedule_is_made_disabled_enabled_and_run(export, at, capsys):
    [made] = export("schedules", "create", *NIGHTLY, "--meter", "egress", "--format", "jsonl")
    [weekly] = export("schedules", "create", *BILLS, "--disabled", "--name", "All bills")
    assert (made["scheduleType"], made["period"], made["offset"]) == ("DAY", 1, 2)
    assert (weekly["operationalDataTypes"], weekly["enabled"]) == (["BILLS"], False)

    listed = {each["code"]: each for each in export("schedules", "list")}
    assert listed["nightly"]["clock"] == "every day at hour 2"
    assert listed["nightly"]["lastStatus"] == "PENDING"
    assert listed["nightly"]["nextRun"].endswith("T02:00:00Z")
    assert (listed["weekly"]["clock"], listed["weekly"]["nextRun"]) == ("cron 0 6 * * MON", None)

    [enabled] = export("schedules", "enable", "weekly")
    assert enabled["enabled"]
    assert enabled["nextRun"].endswith("T06:00:00Z")
    [manifest] = export("schedules", "run", weekly["id"])
    assert manifest["source"] == "operational"
    [job] = export("jobs", "list", "--schedule", "weekly", "--since", "2026-11-01")
    assert (job["id"], job["status"]) == (manifest["jobId"], "SUCCEEDED")
    [waits] = export("jobs", "list", "--schedule", "nightly", "--status", "PENDING")
    [cancelled] = export("jobs", "cancel", waits["id"])
    assert (cancelled["status"], cancelled["outcome"]) == ("FAILED", "CANCELLED")
    [listed] = export("jobs", "list", "--status", "CANCELLED")
    assert listed["id"] == waits["id"]
    export("jobs", "retry", waits["id"])

    assert run(["export", "schedules", "list", *at]) == 0
    assert "every day at hour 2" in capsys.readouterr().out
    assert run(["export", "jobs", "list", *at]) == 0
    assert "SUCCEEDED" in capsys.readouterr().out
    export("schedules", "disable", "nightly")
    for code in ("nightly", "weekly"):
        export("schedules", "delete", code)
    assert export("schedules", "list") == []


# What every version of an entity has of its own.
ENVELOPE = {"version", "dtLastModified"}


def changed(before, after):
    """What differs between two answers, by name; None is what is not there any more."""
    names = (before.keys() | after.keys()) - ENVELOPE
    return {name: after.get(name) for name in names if before.get(name) != after.get(name)}


@pytest.fixture
def usage_schedule(export):
    """A disabled schedule of usage with all that it can have."""
    command = "usage all --every day --offset 2 --period yesterday --name All --disabled"
    more = "--format jsonl --meter egress --account acme --filter egress.region=eu"
    folded = "--aggregate egress.gb:SUM --group day --destination box"
    role = "arn:aws:iam::123456789012:role/exports"
    export("destinations", "create", "s3", "box", "--bucket", "boxes", "--role-arn", role)
    yield export("schedules", "create", *f"{command} {more} {folded}".split())[0]
    export("schedules", "delete", export("schedules", "list")[0]["id"])
    export("destinations", "delete", "box")


@pytest.mark.long
def test_of_a_schedule_only_what_is_given_changes(export, usage_schedule):
    before = usage_schedule
    for given, expected in [
        (["--name", "Every"], {"name": "Every"}),
        (["--format", "parquet"], {"exportFileFormat": "PARQUET"}),
        (["--offset", "5"], {"offset": 5}),
        (["--every", "6 hours"], {"scheduleType": "HOUR", "period": 6, "offset": None}),
        (["--every", "day", "--offset", "3"], {"scheduleType": "DAY", "period": 1, "offset": 3}),
        (
            ["--cron", "0 6 * * *"],
            {"scheduleType": None, "period": None, "offset": None, "cronExpression": "0 6 * * *"},
        ),
        (
            ["--every", "2 days", "--cron", ""],
            {"scheduleType": "DAY", "period": 2, "cronExpression": None},
        ),
        (["--period", "last-7-days", "--group", ""], {"timePeriod": "LAST_7_DAYS", "groups": []}),
        (["--destination", "", "--filter", ""], {"destinationIds": [], "dimensionFilters": []}),
        (["--aggregate", "", "--account", ""], {"aggregations": [], "accountIds": []}),
        (["--meter", ""], {"meterIds": []}),
        (["--code", "every"], {"code": "every"}),
    ]:
        code = before["code"]
        [after] = export("schedules", "update", code, *given)
        assert changed(before, after) == expected
        assert after["version"] == before["version"] + 1
        before = after
    [named] = export("schedules", "update", before["id"], "--name", "")
    assert changed(before, named) == {"name": "every"}
    assert named["enabled"] is False
    [after] = export("schedules", "update", "every", "--destination", "box", "--meter", "egress")
    assert changed(named, after).keys() == {"destinationIds", "meterIds"}


@pytest.mark.long
def test_the_types_of_a_schedule_are_replaced(export):
    command = ["operational", "kinds", "--every", "day", "--type", "bills", "--type", "focus"]
    [made] = export("schedules", "create", *command)
    [after] = export("schedules", "update", "kinds", "--type", "meters", "--type", "accounts")
    [focus] = export("schedules", "update", "kinds", "--type", "focus")
    export("schedules", "delete", "kinds")

    assert changed(made, after) == {"operationalDataTypes": ["METERS", "ACCOUNTS"], "focus": False}
    assert changed(after, focus) == {"operationalDataTypes": [], "focus": True}


@pytest.mark.long
def test_a_schedule_whose_change_is_refused_stays(at, export, capsys, usage_schedule):
    for options, told in [
        ("", "an option that says what changes, such as --name, is required"),
        ("--cron=", "exactly one of --every and --cron"),
        ("--cron daily", "--cron: 'daily' is not allowed"),
        (
            "--cron=@daily --offset 2",
            "--offset: 2 is not allowed: the --cron says when; leave it out",
        ),
        ("--every day --cron @daily", "exactly one of --every and --cron"),
        ("--every 5days", "--every: '5days' is not allowed"),
        ("--every hour --offset 60", "--offset: 60 is not allowed"),
        ("--period=", "--period is required"),
        (
            "--type bills",
            "--type: ['BILLS'] is not allowed: it has no meaning where the source is USAGE",
        ),
        ("--code=", "--code is required"),
        ("--destination nothing", "no ExportDestination"),
        ("--aggregate=", "--aggregate is required"),
        ("--meter calls", "'egress' is not allowed: it must be one of --meter"),
    ]:
        assert run(["export", "schedules", "update", "all", *options.split(), *at]) == 1
        assert told in capsys.readouterr().err
    [now] = export("schedules", "list")
    assert now["version"] == usage_schedule["version"]


@pytest.mark.long
def test_of_a_destination_only_what_is_given_changes(at, export, capsys):
    command = ["--bucket", "abc", "--prefix", "a/b", "--order", "type-first", "--pool", "p"]
    identity = ["--project-number", "1", "--provider", "q", "--service-account", "me@x.example"]
    [before] = export("destinations", "create", "gcs", "place", *command, *identity)
    for given, expected in [
        (["--bucket", "other"], {"bucketName": "other"}),
        (["--prefix", ""], {"prefix": None}),
        (["--order", "time-first"], {"partitionOrder": "TIME_FIRST"}),
        (["--pool", "r", "--service-account="], {"poolId": "r", "serviceAccountEmail": None}),
        (["--name", "A place"], {"name": "A place"}),
        (["--code", "spot"], {"code": "spot"}),
        (["--name", ""], {"name": "spot"}),
    ]:
        [after] = export("destinations", "update", before["code"], *given)
        assert changed(before, after) == expected
        before = after
    for options, told in [
        ("", "an option that says what changes, such as --name, is required"),
        ("--role-arn arn:aws:iam::1:role/x", "it has no meaning where the type is GCS"),
        ("--pool=", "--pool is required"),
        ("--bucket=", "--bucket is required"),
        ("--prefix a//b", "--prefix: 'a//b' is not allowed"),
    ]:
        assert run(["export", "destinations", "update", "spot", *options.split(), *at]) == 1
        assert told in capsys.readouterr().err
    assert export("destinations", "list") == [before]
    export("destinations", "delete", "spot")


def test_the_jobs_of_a_deleted_schedule_are_listed_by_its_id(export, at, capsys):
    [made] = export("schedules", "create", *BILLS)
    export("schedules", "delete", "weekly")

    [job] = export("jobs", "list", "--schedule", made["id"])
    assert job["scheduleId"] == made["id"]
    assert run(["export", "jobs", "list", "--schedule", made["id"][::-1], *at]) == 1
    assert "no ExportSchedule" in capsys.readouterr().err
    assert run(["export", "jobs", "list", "--schedule", "weekly", *at]) == 1


@pytest.mark.long
def test_while_exports_are_switched_off_people_are_told_that_no_schedule_runs(tmp_path, capsys):
    with a_home(tmp_path) as home:
        at = ["--home", str(home.stores.home)]
    for command in (["create", *BILLS], ["list"], ["enable", "weekly"]):
        assert run(["export", "schedules", *command, *at]) == 0
        assert "No schedule runs" in capsys.readouterr().out
    assert run(["export", "jobs", "list", "--json", *at]) == 0
    assert capsys.readouterr().out == ""

    assert run(["export", "schedules", "run", "weekly", "--json", *at]) == 0
    assert json.loads(capsys.readouterr().out)["source"] == "operational"


@pytest.mark.long
def test_a_destination_is_made_checked_and_used(export, small_home, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("METERLAKE_EXPORT_FOLDER", str(tmp_path))
    (tmp_path / "outbox").mkdir()
    command = ["local", "ours", "--bucket", "outbox", "--order", "type-first"]
    [made] = export("destinations", "create", *command)
    [checked] = export("destinations", "check", "ours")
    [manifest] = export("operational", "--type", "meters", "--destination", "ours")

    assert made["partitionOrder"] == "TYPE_FIRST"
    assert checked["writable"]
    assert "/type=meter/date=" in manifest["files"][0]["key"]
    assert list((tmp_path / "outbox").rglob("*_meter.csv.gz"))
    assert [each["code"] for each in export("destinations", "list")] == ["ours"]
    monkeypatch.delenv("METERLAKE_EXPORT_FOLDER")
    at = ["--home", str(small_home)]
    assert run(["export", "destinations", "check", "ours", *at]) == 0  # The home knows the folder.
    assert run(["settings", "unset", "export_folder", *at]) == 0
    capsys.readouterr()
    assert run(["export", "destinations", "check", "ours", *at]) == 1
    assert "write" in capsys.readouterr().out
    export("destinations", "delete", "ours")


def test_files_are_compared_with_their_manifest(export, tmp_path, capsys):
    export("operational", "--format", "jsonl", "--type", "meters", "--to", str(tmp_path))
    [manifest] = tmp_path.rglob("*_manifest.json")
    [file] = tmp_path.rglob("*.jsonl.gz")

    assert run(["export", "verify", str(manifest)]) == 0
    assert "as the manifest says" in capsys.readouterr().out
    file.write_bytes(file.read_bytes()[:-1])
    assert run(["export", "verify", str(manifest), "--json"]) == 1
    assert json.loads(capsys.readouterr().out.splitlines()[0])["file"].endswith(file.name)
    assert run(["export", "verify", str(tmp_path / "nothing.json")]) == 1
