import pytest

from meterlake.model.calendar.cron import Cron
from meterlake.model.errors import Invalid


@pytest.mark.parametrize(
    "text",
    [
        "",
        "* * * *",
        "* * * * * *",
        "60 * * * *",
        "* 24 * * *",
        "0 0 0 * *",
        "0 0 32 * *",
        "0 0 * 13 *",
        "0 0 * * 8",
        "0 0 * * FOO",
        "*/0 * * * *",
        "5-1 * * * *",
        "*-5 * * * *",
        "1,,2 * * * *",
        "-1 * * * *",
        "0 0 31 FEB *",
        "0 0 30,31 2 *",
        "@daily",
    ],
)
def test_what_is_no_expression_is_refused(text):
    with pytest.raises(Invalid, match="cronExpression"):
        Cron.parse("cronExpression", text)


@pytest.mark.parametrize(
    ("text", "gap"),
    [
        ("* * * * *", 1),
        ("*/14 * * * *", 4),
        ("*/15 * * * *", 15),
        ("0,15,30,45 * * * *", 15),
        ("5/30 * * * *", 30),
        ("0 * * * *", 60),
        ("0,50 * * * *", 10),
        ("0,50 9-10/1 * * *", 10),
        ("0 6 * * *", 24 * 60),
        ("0 0,23 * * *", 60),
        ("0 6 29 2 *", 24 * 60),
        ("0 6 31 2 mon", 24 * 60),
        ("0 6 ? JAN-MAR mon-fri", 24 * 60),
    ],
)
def test_the_shortest_gap_counts_from_hour_to_hour_and_over_midnight(text, gap):
    assert Cron.parse("cronExpression", text).shortest_gap() == gap


def test_sunday_is_0_and_7():
    assert Cron.parse("c", "0 0 * * 7").weekdays == Cron.parse("c", "0 0 * * SUN").weekdays == {0}
    assert Cron.parse("c", "0 0 * * *").weekdays is None
    assert Cron.parse("c", "0 0 * * *").days is None
    assert Cron.parse("c", "0 0 */2 * *").days == set(range(1, 32, 2))
