"""A text that is no JSON says nothing; it fails no statement about other rows."""

from sqlalchemy import Text, cast, literal, select, union_all

from meterlake.stores.state import State
from meterlake.stores.state.core.json_columns import member_text
from tests.migrations import changing, upgrade

TEXTS = ["{broken", "", "[1]", "7", '{"code": "a"}', '{"code": 1.50}', '{"code": "\\u0000"}', "{}"]


def read(url):
    some = (
        select(literal(number).label("number"), cast(literal(each), Text).label("body"))
        for number, each in enumerate(TEXTS)
    )
    rows = union_all(*some).subquery()
    query = select(member_text(rows.c.body, literal("code"))).order_by(rows.c.number)
    with changing(url) as connection:
        return list(connection.execute(query).scalars())


def test_members_are_read_beside_a_text_that_is_no_json(database):
    found = read(database)

    assert [*found[:4], found[4], found[7]] == [None, None, None, None, "a", None]


def test_a_home_of_the_revision_before_reads_them_too(empty_database):
    with changing(empty_database) as connection:
        upgrade(connection, "0038")
    State.at(empty_database).close()

    assert read(empty_database)[4] == "a"
