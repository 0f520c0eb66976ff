"""`generate`: seeded measurements, the same bytes every time."""

import gzip
import json
from datetime import date
from decimal import Decimal
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
import pytest
import zstandard

from meterlake.model.errors import Invalid, Unavailable
from meterlake.pipeline.home import generate as module
from meterlake.pipeline.home.generate import Recipe, generate

RECIPE = Recipe(rows=5000, seed=11, accounts=25)


def rows_of(path: Path) -> list[dict[str, object]]:
    """Every row as one flat dictionary of texts."""
    data = path.read_bytes()
    if path.name.endswith(".gz"):
        data = gzip.decompress(data)
    if path.name.endswith(".zst"):
        data = zstandard.ZstdDecompressor().decompressobj().decompress(data)
    text = data.decode()
    if ".csv" in path.name:
        head, *lines = text.splitlines()
        return [dict(zip(head.split(","), line.split(","), strict=True)) for line in lines]
    rows = json.loads(text) if ".json" in path.name else [json.loads(x) for x in text.splitlines()]
    return [
        {
            f"{key}.{code}" if code else key: str(item)
            for key, value in row.items()
            for code, item in (value.items() if isinstance(value, dict) else [("", value)])
        }
        for row in rows
    ]


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz", "a.ndjson.zst", "a.json", "a.parquet"])
def test_the_same_arguments_give_the_same_bytes(tmp_path, name):
    first = generate(RECIPE, tmp_path / "1" / name)
    again = generate(RECIPE, tmp_path / "2" / name)

    assert first.path.read_bytes() == again.path.read_bytes()
    assert first.size_bytes == first.path.stat().st_size


def test_the_size_of_a_block_changes_nothing(tmp_path, monkeypatch):
    whole = generate(RECIPE, tmp_path / "whole.csv").path.read_bytes()
    monkeypatch.setattr(module, "BLOCK_ROWS", 333)

    assert generate(RECIPE, tmp_path / "blocks.csv").path.read_bytes() == whole


def test_another_seed_gives_other_measurements(tmp_path):
    one = generate(RECIPE, tmp_path / "1.csv").path
    two = generate(Recipe(rows=5000, seed=12, accounts=25), tmp_path / "2.csv").path

    assert {row["uid"] for row in rows_of(one)}.isdisjoint(row["uid"] for row in rows_of(two))


@pytest.mark.parametrize("name", ["b.csv.gz", "b.ndjson", "b.json.zst", "b.csv.zst", "b.json"])
def test_every_text_format_holds_the_same_rows(tmp_path, name):
    expected = rows_of(generate(RECIPE, tmp_path / "a.csv").path)
    found = rows_of(generate(RECIPE, tmp_path / name).path)

    for row in [*expected, *found]:
        row["cost.inference"] = Decimal(str(row["cost.inference"]))
    assert found == expected


def test_parquet_holds_the_same_numbers_as_csv(tmp_path):
    csv = generate(RECIPE, tmp_path / "a.csv").path
    parquet = generate(RECIPE, tmp_path / "a.parquet").path
    sums = 'sum("measure.input_tokens"), sum("cost.inference"::DECIMAL(19,6)), min(ts), max(uid)'
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        one = connection.execute(f"SELECT {sums} FROM read_csv('{csv}')").fetchone()
        two = connection.execute(f"SELECT {sums} FROM read_parquet('{parquet}')").fetchone()

    assert one == two


def test_compressed_parquet_can_be_read_after_unpacking(tmp_path):
    packed = generate(RECIPE, tmp_path / "a.parquet.zst").path.read_bytes()
    (tmp_path / "b.parquet").write_bytes(
        zstandard.ZstdDecompressor().decompressobj().decompress(packed)
    )

    assert pq.read_table(tmp_path / "b.parquet").num_rows == 5000


def test_uids_are_unique_and_look_like_uuids(tmp_path):
    uids = [str(row["uid"]) for row in rows_of(generate(RECIPE, tmp_path / "a.csv").path)]

    assert len(set(uids)) == 5000
    assert all([len(part) for part in uid.split("-")] == [8, 4, 4, 4, 12] for uid in uids)


def test_the_first_account_uses_most_and_none_is_unknown(tmp_path):
    rows = rows_of(generate(RECIPE, tmp_path / "a.csv").path)
    counts = [sum(row["account"] == f"account-{n:05}" for row in rows) for n in range(1, 26)]

    assert sum(counts) == 5000
    assert counts[0] > 1.5 * counts[1] > counts[2]


def test_days_are_filled_and_not_left(tmp_path):
    recipe = Recipe(rows=3000, first_day=date(2026, 2, 1), days=28)
    days = {str(row["ts"])[:10] for row in rows_of(generate(recipe, tmp_path / "a.csv").path)}

    assert (min(days), max(days), len(days)) == ("2026-02-01", "2026-02-28", 28)


@pytest.mark.parametrize("name", ["a.csv", "a.ndjson", "a.parquet"])
def test_bad_rows_and_repeats_are_counted(tmp_path, name):
    recipe = Recipe(rows=5000, seed=5, bad=0.02, repeats=0.1)
    generated = generate(recipe, tmp_path / name)

    assert generated.received == 5000
    assert generated.received == generated.accepted + generated.repeats + generated.rejected
    assert 60 < generated.rejected < 140
    assert 400 < generated.repeats < 600


def test_a_repeat_is_the_same_line_again(tmp_path):
    generated = generate(Recipe(rows=5000, repeats=0.5), tmp_path / "a.csv")
    lines = generated.path.read_text().splitlines()[1:]

    assert len(set(lines)) == generated.accepted
    assert len({line.split(",")[2] for line in lines}) == generated.accepted


def test_bad_rows_are_wrong_in_five_ways(tmp_path):
    rows = rows_of(generate(Recipe(rows=2000, bad=0.05), tmp_path / "a.csv").path)

    assert any(row["meter"] == "llm_token" for row in rows)
    assert any(row["ts"] == "yesterday" for row in rows)
    assert any(str(row["ts"]).startswith("2099") for row in rows)
    assert any(row["what.model"] == "" for row in rows)
    assert any(row["measure.input_tokens"] == "n/a" for row in rows)


@pytest.mark.parametrize(("name", "rest"), [("a.csv", 1), ("a.ndjson", 0), ("a.json", 2)])
def test_no_rows_give_a_file_without_rows(tmp_path, name, rest):
    generated = generate(Recipe(rows=0), tmp_path / name)

    assert generated.received == 0
    assert len([line for line in generated.path.read_text().splitlines() if line]) == rest


def test_an_interrupted_run_leaves_nothing(tmp_path):
    def interrupt(_rows: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        generate(RECIPE, tmp_path / "a.csv", progress=interrupt)

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["a.txt", "a", "a.csv.bz2"])
def test_a_name_without_a_format_is_refused(tmp_path, name):
    with pytest.raises(Invalid, match="one of csv, ndjson, json, parquet"):
        generate(RECIPE, tmp_path / name)


@pytest.mark.parametrize(
    "recipe", [Recipe(rows=-1), Recipe(1, accounts=0), Recipe(1, bad=1.5), Recipe(1, days=0)]
)
def test_numbers_out_of_range_are_refused(tmp_path, recipe):
    with pytest.raises(Invalid):
        generate(recipe, tmp_path / "a.csv")


def test_a_folder_that_cannot_be_written_is_unavailable(tmp_path):
    (tmp_path / "file").touch()

    with pytest.raises(Unavailable):
        generate(RECIPE, tmp_path / "file" / "a.csv")
