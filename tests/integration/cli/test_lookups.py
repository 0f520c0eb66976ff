"""`meterlake lookup`: a table and the meter that reads it, configured together, then its data."""

import json
import shutil

import pytest

from meterlake.cli import run
from meterlake.model.catalog.lookups import FILE_MAX

CONFIGURATION = """
lookupTables:
  - code: regions
    name: Regions
lookupTableRevisions:
  - lookupTableId: regions
    name: First
    fields:
      - {name: region, type: STRING}
      - {name: rate, type: NUMBER}
    keys: [region]
meters:
  - code: transfer
    name: Transfer
    dataFields:
      - {category: MEASURE, code: gb, name: Sent}
      - {category: WHERE, code: region, name: Region}
    derivedFields:
      - {category: MEASURE, code: weighted, name: Weighted, calculation: 'gb * lookup("regions", "rate", region)'}
  - code: plain
    name: Plain
    dataFields:
      - {category: MEASURE, code: n, name: Calls}
"""
USAGE = (
    "meter,account,uid,ts,measure.gb,where.region\ntransfer,acme,{uid},2026-09-03T10:00:00Z,4,eu\n"
)


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lookups")
    home = ["--home", str(folder / "home"), "--json"]
    assert run(["init", "--name", "Sample", *home]) == 0
    (folder / "all.yaml").write_text(CONFIGURATION)
    assert run(["config", "apply", str(folder / "all.yaml"), *home]) == 0
    return folder / "home"


@pytest.fixture
def at(template, tmp_path, capsys):
    shutil.copytree(template, tmp_path / "home")
    capsys.readouterr()
    return ["--home", str(tmp_path / "home"), "--json"]


@pytest.fixture
def loads(at, tmp_path, capsys):
    """Loads a file; the line, or the error."""

    def load(text, *more, name="regions.csv", code="regions"):
        (tmp_path / name).write_text(text)
        capsys.readouterr()
        failed = run(["lookup", "load", code, str(tmp_path / name), *more, *at])
        out = capsys.readouterr()
        return json.loads(out.err if failed else out.out)

    return load


def ingest(at, tmp_path, uid):
    (tmp_path / f"{uid}.csv").write_text(USAGE.format(uid=uid))
    assert run(["ingest", str(tmp_path / f"{uid}.csv"), *at]) == 0


def values(at, capsys):
    capsys.readouterr()
    assert run(["sql", "SELECT uid, weighted AS w FROM transfer ORDER BY 1", *at]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    return {line["uid"]: line["w"] for line in lines}


@pytest.mark.long
@pytest.mark.parametrize(
    ("text", "more", "told"),
    [
        ("region,rate\neu,x\n", {}, "rate"),
        ("region,price\neu,1\n", {}, "price"),
        ("region,rate\neu,1\neu,2\n", {}, "key of its own"),
        ("region,rate\neu,1\n", {"name": "regions.xlsx"}, ".csv"),
        ("region,rate\neu,1\n", {"code": "region"}, "did you mean 'regions'?"),
        ("", {}, "is not allowed: it is empty; name the columns in its first line"),
        ("", {"name": "regions.jsonl"}, "it is empty; write a JSON object with the fields of"),
    ],
)
def test_a_file_with_a_mistake_changes_nothing(loads, at, capsys, text, more, told):
    assert told in json.dumps(loads(text, "--publish", **more))
    assert run(["lookup", "list", *at]) == 0
    [line] = map(json.loads, capsys.readouterr().out.splitlines())
    assert (line["status"], line["itemCount"]) == ("DRAFT", 0)


@pytest.mark.long
def test_a_file_that_is_too_large_is_refused_by_its_name(at, tmp_path, capsys):
    file = tmp_path / "regions.csv"
    with file.open("wb") as large:
        large.truncate(FILE_MAX + 1)

    assert run(["lookup", "load", "regions", str(file), *at]) == 1
    assert "it must have at most 104857600 bytes, and has 104857601" in capsys.readouterr().err


@pytest.mark.long
def test_a_file_that_fails_leaves_no_draft_behind(loads, at, capsys):
    loads("region,rate\neu,2\n", "--publish")

    failed = loads("region,rate\neu,1\neu,2\n", "--publish")

    assert "nothing of the file came into the lookup table" in json.dumps(failed)
    assert run(["lookup", "list", *at]) == 0
    [line] = map(json.loads, capsys.readouterr().out.splitlines())
    assert (line["status"], line["itemCount"]) == ("PUBLISHED", 1)


@pytest.mark.long
def test_a_table_is_loaded_published_and_read(loads, at, tmp_path, capsys):
    ingest(at, tmp_path, "before")

    done = loads("region,rate\neu,2\n", "--publish")

    assert (done["status"], done["itemCount"], done["meters"]) == ("PUBLISHED", 1, ["transfer"])
    ingest(at, tmp_path, "after")
    # What came in before the table was published says so, and can be derived again.
    assert values(at, capsys) == {"before": None, "after": 8}
    # The next file goes into a new draft; calculations read the old one until it is published.
    again = loads('{"region": "eu", "rate": 3}\n', name="regions.jsonl")
    assert (again["status"], again["itemCount"]) == ("DRAFT", 1)
    ingest(at, tmp_path, "between")
    assert run(["lookup", "publish", "regions", *at]) == 0
    ingest(at, tmp_path, "last")
    assert values(at, capsys) == {"before": None, "after": 8, "between": 8, "last": 12}
    assert run(["lookup", "list", *at]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert sorted(line["status"] for line in lines) == ["ARCHIVED", "PUBLISHED"]
    assert run(["lookup", "publish", "regions", *at]) == 1
    assert "no draft" in capsys.readouterr().err


@pytest.mark.long
def test_columns_that_a_meter_reads_stay_before_they_are_published(at, tmp_path, capsys):
    path = tmp_path / "all.yaml"
    path.write_text(CONFIGURATION.partition("meters:")[0].replace("rate, type", "price, type"))

    assert run(["config", "apply", str(path), *at]) == 1

    assert "Meter 'transfer'" in capsys.readouterr().err


@pytest.mark.long
def test_the_nearest_table_is_named_once(loads):
    message = json.dumps(loads("region,rate\neu,1\n", "--publish", code="region"))
    assert message.count("did you mean 'regions'?") == 1
