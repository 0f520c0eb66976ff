"""Lists: what their cells and their downloads say."""

from decimal import Decimal

import pytest

from meterlake.console.shell.files import csv_text
from meterlake.console.shell.lists import Column
from meterlake.console.shell.people import author_name


@pytest.mark.parametrize(
    ("value", "cell"),
    [
        (None, ""),
        (True, "true"),
        (Decimal("1E+3"), "1000"),
        ("-12.50", "-12.50"),
        ("=1+1", "'=1+1"),
        ("+cmd", "'+cmd"),
        ("@x", "'@x"),
        ("'=", "''="),
        ("plain", "plain"),
    ],
)
def test_a_cell_of_a_download_is_a_number_or_no_formula(value, cell):
    assert csv_text([[value, "end"]]) == f"{cell},end\r\n"


def test_a_column_reads_a_member_within_a_member_and_quotes_what_it_leads_to():
    column = Column("Country", "address.country", link="/console/plans/{code}")

    assert column.value({"address": {"country": "FR"}}) == "FR"
    assert column.value({"address": None}) is None
    assert column.target({"code": "a/b?"}) == "/console/plans/a%2Fb%3F"
    assert column.target({}) == ""


@pytest.mark.parametrize(
    ("author", "name"),
    [
        ("USER_1", "Ada Lovelace"),
        ("USER_2", "somebody who left"),
        ("SERVICE_USER_2", "a program that is gone"),
        ("SYSTEM", "meterlake"),
        ("ingest", "ingest"),
        (None, ""),
    ],
)
def test_an_author_is_a_name(author, name):
    assert author_name(author, {"USER_1": "Ada Lovelace"}) == name
