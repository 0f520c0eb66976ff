"""Files with answers of the Data Explorer."""

import csv
import io

from meterlake.pipeline.explorer.answers import FileFormat, keep

pytest_plugins = ["tests.doubles.fixtures"]


def test_texts_of_customers_do_not_break_rows(home):
    rows = [{"dimensions": {"name": name}, "measures": {}} for name in ("a\r=1+1", 'b"\n', "c")]
    kept = keep(home.organization, "answer", rows, FileFormat.CSV)
    text = home.stores.objects.get(kept.key).decode()

    found = list(csv.reader(io.StringIO(text, newline=""), strict=True))
    assert found == [["dimensions.name"], ["a\r=1+1"], ['b"\n'], ["c"]]
