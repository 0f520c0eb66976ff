"""The commands: what they print, and how they fail."""

import json
from decimal import Decimal

import pytest

import sample_data
from meterlake.cli import run


def lines(capsys):
    """What was printed as JSON lines, with exact numbers."""
    out = capsys.readouterr().out
    return [json.loads(line, parse_float=Decimal) for line in out.splitlines()]


def test_init_shows_the_secret_once_and_stores_it_nowhere(tmp_path, capsys):
    home = tmp_path / "Große Daten"

    assert run(["init", "--name", "Müller & Söhne", "--home", str(home), "--json"]) == 0

    [made] = lines(capsys)
    assert set(made) == {"orgId", "accessKeyId", "apiSecret"}
    for path in home.rglob("*"):
        if path.is_file():
            assert made["apiSecret"].encode() not in path.read_bytes()


def test_a_lake_in_a_bucket_needs_a_catalog_that_all_machines_reach(tmp_path, monkeypatch, capsys):
    home = tmp_path / "home"
    monkeypatch.setenv("METERLAKE_LAKE", "s3://usage/lakes")

    assert run(["init", "--name", "Acme", "--home", str(home)]) == 1

    told = "meterlake: METERLAKE_CATALOG beside a lake in s3://usage/lakes is required\n"
    assert capsys.readouterr().err == told
    assert not home.exists()


@pytest.mark.long
def test_init_makes_the_drop_folder(tmp_path, capsys):
    assert run(["init", "--name", "Acme", "--home", str(tmp_path / "home")]) == 0

    assert (tmp_path / "home" / "drop" / "acme" / "inbox").is_dir()
    assert "Keep the secret" in capsys.readouterr().out


def test_the_same_name_twice_is_refused(home, capsys):
    assert run(["init", "--name", "Halvorsen Cloud", "--home", str(home)]) == 1

    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("meterlake: ")
    assert captured.err.count("\n") == 1


def test_applying_the_same_files_again_changes_nothing(home, capsys):
    apply = ["config", "apply", str(sample_data.CONFIGURATION), "--home", str(home), "--json"]

    assert run(apply) == 0

    assert {change["action"] for change in lines(capsys)} == {"unchanged"}


def test_a_dry_run_shows_the_difference_and_writes_nothing(home, tmp_path, capsys):
    changed = tmp_path / "changed.yaml"
    changed.write_text("products: [{code: llm, name: Large language models}]")
    apply = ["config", "apply", str(changed), "--dry-run", "--home", str(home), "--json"]

    for _ in range(2):
        assert run(apply) == 0
        [change] = lines(capsys)
        assert change["action"] == "updated"
        assert change["differences"] == [
            {"field": "name", "old": "Language models", "new": "Large language models"}
        ]


@pytest.mark.long
def test_what_nothing_heeds_is_told_on_saving(home, tmp_path, capsys):
    changed = tmp_path / "changed.yaml"
    changed.write_text(
        "accounts: [{code: own, name: Own, emailAddress: a@b.example}]\n"
        "contracts: [{code: a, name: A, accountId: own, startDate: 2026-01-01,"
        " endDate: 2027-01-01, purchaseOrderNumber: PO}]\n"
        "organizationConfig: {currency: EUR, daysBeforeBillDue: 14,"
        " autoGenerateStatementMode: JSON}\n"
    )
    at = ["--home", str(home)]
    sentence = (
        "purchaseOrderNumber is stored and has no effect in this version:"
        " bills have that of the account"
    )

    assert run(["config", "apply", str(changed), *at]) == 0
    assert f"note: contracts a: {sentence}" in capsys.readouterr().out
    assert run(["config", "apply", str(changed), "--json", *at]) == 0
    told = {change["kind"]: change["withoutEffect"] for change in lines(capsys)}
    assert told == {"accounts": [], "contracts": [sentence], "organizationConfig": []}
    assert run(["config", "apply", str(changed), *at]) == 0
    assert "note:" not in capsys.readouterr().out
    assert run(["status", "--json", *at]) == 0
    assert lines(capsys)[0]["withoutEffect"] == []


def test_the_diff_can_be_read(home, tmp_path, capsys):
    changed = tmp_path / "changed.yaml"
    changed.write_text("products: [{code: llm, name: Large language models}, {code: x, name: X}]")

    assert run(["config", "apply", str(changed), "--home", str(home)]) == 0

    out = capsys.readouterr().out
    assert "Language models  Large language models" in out
    assert "1 updated" in out
    assert "1 created" in out


@pytest.mark.long
def test_exported_configuration_can_be_applied(home, tmp_path, capsys):
    assert run(["config", "export", "--home", str(home)]) == 0
    exported = tmp_path / "all.yaml"
    exported.write_text(capsys.readouterr().out, "utf-8")

    assert run(["config", "apply", str(exported), "--home", str(home), "--json"]) == 0

    assert {change["action"] for change in lines(capsys)} == {"unchanged"}


def test_exported_numbers_keep_their_digits(home, capsys):
    assert run(["config", "export", "--home", str(home), "--json"]) == 0

    [configuration] = lines(capsys)
    rates = [
        one["multiplier"] for one in configuration["organizationConfig"]["currencyConversions"]
    ]
    assert rates == [Decimal("1.0825"), Decimal("0.9238")]


def test_ingest_reports_every_file(home, capsys):
    path = sample_data.MEASUREMENTS / "11-llm-bad-rows.csv"

    assert run(["ingest", str(path), "--home", str(home), "--json"]) == 0

    [receipt] = lines(capsys)
    expected = json.loads(sample_data.EXPECTED.read_text("utf-8"))
    [counts] = [one for one in expected["files"] if one["name"] == path.name]
    assert receipt["received"] == counts["received"]
    # What was stored before is a repeat now; what was rejected is rejected again.
    assert receipt["repeats"] + receipt["rejected"] == receipt["received"]


@pytest.mark.long
def test_ingest_of_an_unreadable_file_fails_but_takes_the_others(home, tmp_path, capsys):
    (tmp_path / "a.csv.gz").write_bytes(b"not gzip")
    good = sample_data.MEASUREMENTS / "14-seats-days-21-31.ndjson"

    assert run(["ingest", str(tmp_path / "a.csv.gz"), str(good), "--home", str(home)]) == 1

    captured = capsys.readouterr()
    assert "14-seats-days-21-31.ndjson" in captured.out
    assert captured.err == "meterlake: 1 of 2 files could not be read: a.csv.gz\n"


@pytest.mark.long
def test_ingest_uses_a_mapping(home, capsys):
    mapping = sample_data.MAPPINGS / "edge-gateway.yaml"
    path = sample_data.MEASUREMENTS / "17-edge-gateway-2026-10.csv"
    at = ["--home", str(home), "--json"]

    assert run(["ingest", str(path), "--mapping", str(mapping), *at]) == 0

    [receipt] = lines(capsys)
    assert receipt["accepted"] == receipt["received"] == 92
    assert receipt["mapping"].startswith("edge-gateway@")


@pytest.mark.long
def test_status_sums_up(home, capsys):
    assert run(["status", "--home", str(home), "--json"]) == 0

    [status] = lines(capsys)
    totals = status["totals"]
    assert totals["received"] == totals["accepted"] + totals["repeats"] + totals["rejected"]
    assert sum(status["rejected"].values()) == totals["rejected"]
    counted = {meter["meter"]: meter["measurements"] for meter in status["meters"]}
    assert counted["storage"] == 320
    assert counted["api_calls"] == 0
    assert status["sources"][0]["finished"].endswith("Z")


@pytest.mark.long
def test_status_can_be_read(home, capsys):
    assert run(["status", "--home", str(home)]) == 0

    out = capsys.readouterr().out
    assert "Halvorsen Cloud (halvorsen-cloud)" in out
    assert "Rejected at present" in out


@pytest.mark.long
def test_sql_gives_exact_numbers_and_utc(home, capsys):
    query = "SELECT sum(gigabytes) AS gigabytes, min(ts) AS first FROM storage"

    assert run(["sql", query, "--home", str(home), "--json"]) == 0

    [row] = lines(capsys)
    assert isinstance(row["gigabytes"], Decimal)
    assert row["first"] == "2026-10-01T10:00:00Z"


@pytest.mark.long
def test_sql_cuts_long_tables_and_says_so(home, capsys):
    assert run(["sql", "FROM range(1001)", "--home", str(home)]) == 0

    out = capsys.readouterr().out
    assert "The first 1,000 rows; --json, --csv and --parquet give all." in out


def test_generated_measurements_are_counted(tmp_path, capsys):
    out = tmp_path / "a.ndjson.zst"
    options = ["--rows", "500", "--bad", "0.1", "--repeats", "0.1", "--json"]

    assert run(["generate", "--out", str(out), *options]) == 0

    [made] = lines(capsys)
    assert made["received"] == 500 == made["accepted"] + made["repeats"] + made["rejected"]
    assert made["sizeBytes"] == out.stat().st_size


def test_errors_are_json_lines_too(tmp_path, capsys):
    assert run(["status", "--home", str(tmp_path / "none"), "--json"]) == 1

    captured = capsys.readouterr()
    assert captured.out == ""
    error = json.loads(captured.err)["error"]
    assert error["code"] == "NotFound"
    assert "meterlake init" in error["message"]


@pytest.mark.parametrize(
    "tokens",
    [["nosuch"], ["sql"], ["status", "--jsn"], ["init"], ["generate", "--rows", "x"], ["ingest"]],
)
def test_wrong_usage_is_one_line_and_exit_code_2(tokens, capsys):
    assert run(tokens) == 2

    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1


@pytest.mark.parametrize(
    ("name", "value", "rule"),
    [
        ("THREADS", "many", "a whole number"),
        ("THREADS", "0", "1 or more"),
        ("THREADS", "1.5", "a whole number"),
        ("ALERT_REJECT_RATE", "half", "a number"),
        ("GROUP_READ", "maybe", "true or false"),
        ("SEGMENT_COPIES", "yes", "'none' or 'objects'"),
        ("DUCKDB_MEMORY", "lots", "a size such as 700MB or 2GB"),
        ("S3_ENDPOINT", "nonsense", "an http:// or https:// URL without a query, or empty"),
    ],
)
def test_a_wrong_setting_is_one_line_with_its_rule(home, monkeypatch, capsys, name, value, rule):
    monkeypatch.setenv(f"METERLAKE_{name}", value)

    assert run(["status", "--home", str(home)]) == 1

    told = f"meterlake: METERLAKE_{name}: {value!r} is not allowed: it must be {rule}\n"
    assert capsys.readouterr().err == told


def test_the_home_may_come_from_the_environment(home, monkeypatch, capsys):
    monkeypatch.setenv("METERLAKE_HOME", str(home))

    assert run(["sql", "SELECT 1 AS one", "--json"]) == 0

    assert lines(capsys) == [{"one": 1}]


@pytest.mark.long
def test_an_organization_must_be_named_when_there_are_several(home, capsys):
    assert run(["init", "--name", "Other", "--home", str(home)]) == 0
    capsys.readouterr()

    assert run(["status", "--home", str(home)]) == 1
    named = "this home has halvorsen-cloud (Halvorsen Cloud), other (Other); name one"
    assert named in capsys.readouterr().err

    assert run(["status", "--home", str(home), "--org", "other", "--json"]) == 0
    assert lines(capsys)[0]["organization"] == "other"


def test_ctrl_c_is_no_traceback(home, monkeypatch, capsys):
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("meterlake.pipeline.home.status.status", interrupt)

    assert run(["status", "--home", str(home)]) == 130
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("words", ["shard-lake --shards", "generate --rows", "serve --workers"])
def test_a_fraction_is_no_whole_number_and_is_not_rounded(words, capsys):
    assert run([*words.split(), "2.5"]) == 2

    option = words.rpartition(" ")[2]
    assert f"Invalid value for {option}: '2.5' is no whole number" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("word", "command"),
    [("xero", "bill xero"), ("document", "bill document"), ("top-up", "balance top-up")],
)
def test_a_command_without_its_first_word_is_found(word, command, capsys):
    assert run([word, "--month", "2026-10"]) == 2
    assert f"Type `meterlake {command}`." in capsys.readouterr().err
