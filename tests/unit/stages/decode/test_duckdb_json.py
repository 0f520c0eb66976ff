"""Why NDJSON is not read by DuckDB, which is faster: it reads numbers as binary doubles."""

import duckdb
import pytest

EXACT = "12345678901234567890.123456"


@pytest.mark.parametrize("kind", ["DECIMAL(38,6)", "VARCHAR"])
def test_duckdb_still_reads_json_numbers_inexactly(kind, tmp_path):
    path = tmp_path / "number.ndjson"
    path.write_text(f'{{"gb":{EXACT}}}\n')

    read = f"read_json('{path}', format='newline_delimited', columns={{gb: '{kind}'}})"
    with duckdb.connect() as connection:
        [found] = connection.execute(f"SELECT gb::VARCHAR FROM {read}").fetchone()

    assert found != EXACT, (
        f"DuckDB {duckdb.__version__} reads a JSON number of 26 digits exactly as {kind}."
        " Where it does so for all of them, as DECIMAL, one call of its read_json could take the"
        " place of stages/decode/uniform_ndjson.py and of pyarrow.json in stages/decode/json.py (_fast, _read,"
        " _flat and what _MISREAD looks for): about 400 lines. See docs/decisions/ingest.md."
    )
    assert float(found) == pytest.approx(float(EXACT))
