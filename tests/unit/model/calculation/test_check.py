import pytest

from meterlake.model.calculation import (
    CalculationScope,
    InvalidCalculation,
    LookupSchema,
    Type,
    check,
    parse,
)

SCOPE = CalculationScope(
    {
        "requests": Type.NUMBER,
        "region": Type.TEXT,
        "ts": Type.INSTANT,
        "account.code": Type.TEXT,
        "customFields.account.tier": Type.TEXT,
        "active": Type.BOOLEAN,
    },
    {"rates": LookupSchema((Type.TEXT, Type.NUMBER), {"country": Type.TEXT, "rate": Type.NUMBER})},
)


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        ("1 + requets", 5, "unknown name `requets`; did you mean requests?"),
        ("REQUESTS", 1, "did you mean requests?"),
        ("customfields.account.tier", 1, "did you mean customFields.account.tier?"),
        ("True", 1, "did you mean true?"),
        ("Math.pi", 1, "did you mean Math.PI?"),
        ("__class__", 1, "unknown name"),
        ("__import__(1)", 1, "unknown function"),
        ("eval(region)", 1, "unknown function"),
        ("Math.maximum(1, 2)", 1, "unknown function"),
        ("math.max(1, 2)", 1, "did you mean Math.max?"),
        ("requests + region", 12, "`\\+` needs number, not text; did you mean toNumber"),
        ("region + requests", 10, "did you mean toText"),
        ("region * 2", 1, "`\\*` needs number, not text"),
        ("ts - ts", 1, "`-` needs number, not instant"),
        (
            "requests == region",
            13,
            "needs number on both sides, not text; did you mean toNumber\\(region",
        ),
        ("region > 5", 10, "did you mean toNumber\\(region\\)"),
        ("region == 5", 11, 'needs text on both sides, not number; did you mean "5"\\?'),
        ("5 != region", 6, 'did you mean "5"\\?'),
        ('requests == "5"', 13, "did you mean 5\\?"),
        ('requests == "many"', 13, "not text$"),
        ("region == requests", 11, "did you mean toNumber\\(region\\)"),
        ("active < true", 1, "`<` needs"),
        ("1 < 2 < 3", 5, "not boolean"),
        ("requests AND true", 1, "`AND` needs boolean, not number"),
        ("true OR 1", 9, "`OR` needs boolean"),
        ("-region", 2, "`-` needs number"),
        ("2 ^ region", 5, "`\\^` needs number"),
        ("requests ? 1 : 2", 1, "needs boolean"),
        ('active ? 1 : "a"', 14, "needs number, not text"),
        ("Math.max(1)", 1, "takes 2 or more arguments, not 1"),
        ("Math.pow(1, 2, 3)", 1, "takes 2 arguments, not 3"),
        ("Math.round(1, 2, 3)", 1, "takes 1 to 2 arguments"),
        ("isnull(requests)", 1, "takes 2 arguments"),
        ('isnull(requests, "a")', 18, "needs number"),
        ("IN(region, 1)", 12, "needs text"),
        ("hour(region)", 6, "did you mean toInstant"),
        ("lookup(region, region, 1)", 8, "in double quotes"),
        ('lookup("rate", "rate", 1)', 8, "did you mean rates?"),
        ('lookup("rates", "rat", 1)', 17, "did you mean rate?"),
        ('lookup("rates", "rate", region)', 1, "as many keys as the table has \\(2\\), not 1"),
        ('lookup("rates", "rate", 1, 2)', 25, "needs text"),
    ],
)
def test_mistakes_are_found_with_place_and_suggestion(text, column, message):
    with pytest.raises(InvalidCalculation, match=message) as refused:
        check(parse(text), SCOPE)
    assert refused.value.column == column


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("requests * 2 ^ -1", Type.NUMBER),
        ("region + account.code", Type.TEXT),
        ("requests > 1 AND active OR region == null", Type.BOOLEAN),
        ("null", Type.NULL),
        ("null + region", Type.TEXT),
        ("active ? null : ts", Type.INSTANT),
        ("isnull(null, 1)", Type.NUMBER),
        ('IN(region, "a", null)', Type.BOOLEAN),
        ("truncateToDay(ts)", Type.INSTANT),
        ("toText(ts, DateTime.TS_FMT)", Type.TEXT),
        ('lookup("rates", "country", region, null)', Type.TEXT),
        ("1 < 2 == active", Type.BOOLEAN),
    ],
)
def test_the_type_of_a_result_is_known(text, found):
    assert check(parse(text), SCOPE) == found


def test_a_result_of_another_type_than_expected_is_refused():
    with pytest.raises(InvalidCalculation, match="the result needs number, not text"):
        check(parse("region"), SCOPE, Type.NUMBER)
    assert check(parse("null"), SCOPE, Type.NUMBER) == Type.NULL
