"""Files from elsewhere: separators that are found, columns that are nearly ours, dry runs, mappings."""

import json

import pytest

from meterlake.cli import run
from tests.homes import HEADER, a_home, csv_row, gz

TS = "2026-09-03T10:00:00Z"
MAPPING = """
account: {column: carrier}
ts: time
measurements:
  - meter: egress
    fields: {measure.gb: size, where.region: region}
"""


@pytest.fixture(scope="module")
def opened(tmp_path_factory):
    with a_home(tmp_path_factory.mktemp("foreign")) as home:
        yield home


@pytest.fixture
def ingest(opened, tmp_path, capsys):
    """Ingests one file by the command line; its exit code and the line that is printed."""

    def ingest(name, text, *more):
        (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
        capsys.readouterr()
        at = ["--home", str(opened.stores.home), "--json"]
        code = run(["ingest", str(tmp_path / name), *more, *at])
        return code, json.loads(capsys.readouterr().out)

    return ingest


@pytest.mark.parametrize("delimiter", [";", "\t", "|"])
@pytest.mark.parametrize("name", ["usage.csv", "usage"])
def test_what_separates_the_values_is_found(ingest, delimiter, name):
    text = (HEADER + csv_row(f"{name}{ord(delimiter)}", "1.5", region="a b")).replace(
        ",", delimiter
    )

    code, line = ingest(name, text)

    assert (code, line["accepted"], line["rejected"], line["ignoredColumns"]) == (0, 1, 0, [])


@pytest.mark.long
def test_a_mapping_finds_it_too_unless_it_says_which(ingest, tmp_path):
    (tmp_path / "m.yaml").write_text(MAPPING)
    text = f"carrier;time;size;region\nacme;{TS};1;a,b\n"

    code, line = ingest("mapped.csv", text, "--mapping", str(tmp_path / "m.yaml"))
    (tmp_path / "m.yaml").write_text(MAPPING + 'delimiter: ","\n')
    wrong, other = ingest(
        "mapped2.csv", text.replace("a,b", "a,c"), "--mapping", str(tmp_path / "m.yaml")
    )

    assert (code, line["accepted"]) == (0, 1)
    assert (wrong, other["reason"]) == (1, "MissingHeader")


@pytest.mark.long
def test_columns_that_nobody_reads_are_named_with_what_was_perhaps_meant(ingest, opened):
    header = "meter,account,id,ts,region,mesure.gb,note,derived.x,\n"
    code, line = ingest("columns.csv", f"{header}egress,acme,i,{TS},eu,2,hello,5,\n")

    assert (code, line["rejected"]) == (0, 1)
    assert {each["name"]: each["suggestion"] for each in line["ignoredColumns"]} == {
        "id": "uid",
        "region": "where.region",
        "mesure.gb": "measure.gb",
        "note": None,
    }
    assert "'region' (did you mean 'where.region'?)" in line["detail"]
    # The ledger has it as well.
    assert [line["detail"]] in [
        [each] for [each] in opened.query("SELECT detail FROM lake.source WHERE detail IS NOT NULL")
    ]


def test_a_column_that_is_there_is_not_what_another_one_means(ingest):
    header = "meter,account,uid,ts,measure.gb,where.region,count,customer,region,mesure.gb\n"
    code, line = ingest("there.csv", f"{header}egress,acme,there,{TS},1,eu,3,acme,eu,2\n")

    assert (code, line["accepted"]) == (0, 1)
    assert {each["name"]: each["suggestion"] for each in line["ignoredColumns"]} == dict.fromkeys(
        ("count", "customer", "region", "mesure.gb")
    )


@pytest.mark.long
def test_a_needed_column_that_is_missing_is_looked_for_among_the_others(ingest):
    code, line = ingest("missing.csv", f"meter,customer,timestamp,gb\negress,acme,{TS},1\n")

    assert (code, line["reason"]) == (1, "MissingHeader")
    assert "'customer' looks like account, 'timestamp' looks like ts" in line["detail"]


@pytest.mark.long
def test_a_dry_run_tells_what_would_become_of_a_file_and_stores_nothing(ingest, opened):
    ingest("first.csv", HEADER + csv_row("known", 1))
    lake = opened.organization.lake
    before = (lake.snapshot(), opened.measurements(), opened.account_codes(), opened.ledger())
    rows = [
        csv_row("known", 1),
        csv_row("known", 2),
        csv_row("new", 3, account="nobody-yet"),
        csv_row("bad", "x"),
        csv_row("new", 3, account="nobody-yet"),
    ]
    data = gz((HEADER + "".join(rows)).encode())

    code, preview = ingest("dry.csv.gz", data, "--dry-run")
    after = (lake.snapshot(), opened.measurements(), opened.account_codes(), opened.ledger())
    staged = list(lake.staging.iterdir())
    _, real = ingest("dry.csv.gz", data)

    assert (code, preview["dryRun"], after, staged) == (0, True, before, [])
    counts = ("received", "accepted", "repeats", "rejected", "newAccounts", "reasons")
    assert [preview[name] for name in counts] == [real[name] for name in counts]
    assert preview["rejectedSample"] == real["rejectedSample"]
    assert (preview["accepted"], preview["repeats"], preview["newAccounts"]) == (1, 2, 1)


def test_a_dry_run_shows_people_the_rows_with_problems(opened, tmp_path, capsys):
    (tmp_path / "bad.csv").write_text(HEADER + csv_row("u", "much"))
    (tmp_path / "worse.csv").write_bytes(b"\xff\xfe")
    files = [str(tmp_path / name) for name in ("bad.csv", "worse.csv")]

    assert run(["ingest", *files, "--dry-run", "--home", str(opened.stores.home)]) == 1

    shown = capsys.readouterr()
    assert "InvalidNumber" in shown.out
    assert "Dry run: nothing was stored." in shown.out
    assert "worse.csv" in shown.err


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (("meter: egress", "meter: egres"), "no meter 'egres'; did you mean 'egress'?"),
        (("where.region", "where.regoin"), "no field 'where.regoin'; did you mean 'where.region'?"),
        ((", where.region: region", ""), "no column for 'where.region' of meter 'egress'"),
    ],
)
def test_a_mapping_that_does_not_fit_the_meters_is_told(opened, tmp_path, capsys, change, problem):
    (tmp_path / "m.yaml").write_text(MAPPING.replace(*change))

    code = run(["mapping", "check", str(tmp_path / "m.yaml"), "--home", str(opened.stores.home)])

    assert code == 1
    assert problem in capsys.readouterr().err


@pytest.mark.long
def test_a_mapping_is_tried_on_files_and_nothing_is_stored(opened, tmp_path, capsys):
    (tmp_path / "m.yaml").write_text(MAPPING)
    (tmp_path / "usage.csv").write_text(
        f"carrier,time,size,region,more\nacme,{TS},1,eu,\nacme,{TS},x,eu,\n"
    )
    before = opened.ledger()
    capsys.readouterr()
    at = ["--home", str(opened.stores.home), "--json"]

    code = run(["mapping", "check", str(tmp_path / "m.yaml"), str(tmp_path / "usage.csv"), *at])

    line = json.loads(capsys.readouterr().out)
    assert (code, line["accepted"], line["rejected"], line["dryRun"]) == (0, 1, 1, True)
    assert opened.ledger() == before


@pytest.mark.long
def test_the_first_rows_stand_beside_what_becomes_of_them(opened, tmp_path, capsys):
    (tmp_path / "m.yaml").write_text(MAPPING)
    text = f"carrier,time,size,region\nacme,{TS},1.50,eu\nacme,{TS},x,eu\nacme,{TS},3,eu\n"
    packed = gz(text.encode())
    (tmp_path / "usage.csv.gz").write_bytes(packed)
    files = [str(tmp_path / "m.yaml"), str(tmp_path / "usage.csv.gz")]
    capsys.readouterr()

    code = run(
        ["mapping", "check", *files, "--rows", "2", "--home", str(opened.stores.home), "--json"]
    )

    good, bad, receipt = map(json.loads, capsys.readouterr().out.splitlines())
    assert code == 0
    assert (good["row"], good["fields"]["measure.gb"], good["account"]) == (2, "1.5", "acme")
    assert (bad["row"], bad["reason"], bad["field"]) == (3, "InvalidNumber", "measure.gb")
    assert receipt["received"] == 3


@pytest.mark.long
def test_a_mapping_is_kept_listed_and_deleted(opened, tmp_path, capsys):
    (tmp_path / "flights.yaml").write_text(MAPPING + "files: ['flights*.csv']\n")
    at = ["--home", str(opened.stores.home)]
    capsys.readouterr()

    assert run(["mapping", "save", str(tmp_path / "flights.yaml"), *at, "--json"]) == 0
    saved = json.loads(capsys.readouterr().out)
    assert run(["mapping", "list", *at]) == 0
    shown = capsys.readouterr().out
    codes = [run(["mapping", "delete", "flights", *at]) for _ in range(2)]

    assert saved["mapping"]["account"] == {"column": "carrier"}
    assert "flights*.csv" in shown
    assert codes == [0, 1]


def test_a_file_of_which_no_row_came_in_says_where_they_are(opened, tmp_path, capsys):
    path = tmp_path / "no row.csv"
    path.write_text(HEADER + csv_row("no-row", "x"))

    assert run(["ingest", str(path), "--home", str(opened.stores.home)]) == 0

    told = " ".join(capsys.readouterr().out.split())
    assert "No row of no row.csv came in: meterlake rejected list --source 'no row.csv'" in told
