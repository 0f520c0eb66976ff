from decimal import Decimal

import pytest

from meterlake.model.errors import UnreadableConfiguration
from meterlake.model.values.documents import BYTES_MAX, parse, to_yaml


def yaml(text):
    return parse("a.yaml", text.encode())


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1),
        ("-12", -12),
        ("+5", 5),
        ("0.10", Decimal("0.10")),
        ("12345678901234567890.123456789", Decimal("12345678901234567890.123456789")),
        ("1e3", Decimal("1e3")),
        ("007", "007"),
        ("00.5", "00.5"),
        (".5", ".5"),
        ("0x10", "0x10"),
        ("1_000", "1_000"),
        ("12:30", "12:30"),
        (".inf", ".inf"),
        (".nan", ".nan"),
        ("2026-10-01", "2026-10-01"),
        ("2026-10-01T00:00:00Z", "2026-10-01T00:00:00Z"),
        ("no", "no"),
        ("on", "on"),
        ("Yes", "Yes"),
        ("true", True),
        ("False", False),
        ("null", None),
        ("~", None),
        ("", None),
        ("nullable", "nullable"),
        ("truee", "truee"),
        ("'5'", "5"),
        ("!!str 5", "5"),
        ("=", "="),
        ("<<", "<<"),
    ],
)
def test_a_plain_scalar_means_what_it_looks_like(text, value):
    read = yaml(f"key: {text}")

    assert read == {"key": value}
    assert type(read["key"]) is type(value)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: 1\na: 2", "line 2, column 1: the key 'a' stands there twice"),
        ("a: {b: 1, b: 1}", "the key 'b' stands there twice"),
        ("1: 2", "the key 1 is no text; put it in quotes"),
        ("&a [*a]", "an alias that contains itself"),
        ("a: !!python/object:os.system x", "is not known here"),
        ("a: !!binary aGk=", "is not known here"),
        ("a: 1" + "0" * 500, "too many digits"),
        ("a: 1\n---\nb: 2", "another document"),
        ("\ta: 1", "line 1, column 1"),
        ("a: [1\n", "line 2, column 1: did not find expected ',' or ']'"),
        ("a: \x01", "control characters"),
        ("[" * 101, "line 1, column 101: nested too deeply: 100 levels at most"),
        ("- " * 100_000, "nested too deeply"),
    ],
)
def test_what_is_not_clear_is_refused_with_its_place(text, problem):
    with pytest.raises(UnreadableConfiguration, match=r"configuration a\.yaml: ") as caught:
        yaml(text)

    assert problem in str(caught.value)
    assert "\n" not in str(caught.value)


def test_aliases_are_understood_but_cannot_make_a_document_explode():
    assert yaml("a: &x {b: 1}\nc: *x") == {"a": {"b": 1}, "c": {"b": 1}}
    levels = [f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 10)}]" for n in range(1, 9)]

    with pytest.raises(UnreadableConfiguration, match="more than"):
        yaml("\n".join(["l0: &l0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]", *levels]))


@pytest.mark.parametrize("text", ["", "# nothing\n", "---\n", "\ufeff"])
def test_an_empty_document_is_nothing(text):
    assert yaml(text) is None
    assert parse("a.json", b" ") is None


def test_a_byte_order_mark_and_windows_line_ends_do_not_matter():
    assert yaml("\ufeffa: 1\r\nb: 2\r\n") == {"a": 1, "b": 2}
    assert parse("a.JSON", '\ufeff{"a": 1}'.encode()) == {"a": 1}


def test_json_numbers_are_exact():
    assert parse("a.json", b'{"a": 12345678901.123456, "b": 1}') == {
        "a": Decimal("12345678901.123456"),
        "b": 1,
    }


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b'{"a": 1, "a": 2}', "the key 'a' stands there twice"),
        (b"[NaN]", "NaN is no number"),
        (b"{", "not JSON"),
        (b"[" * 100_000, "nested too deeply"),
        (b"[" + b"1" * 5_000 + b"]", "not JSON"),
        (b"[0." + b"1" * 5_000 + b"]", "too many digits"),
        (b"\xff\xfe", "not UTF-8"),
    ],
)
def test_json_that_is_not_clear_is_refused(data, problem):
    with pytest.raises(UnreadableConfiguration, match=problem):
        parse("a.json", data)


def test_a_huge_file_is_refused_before_it_is_read():
    with pytest.raises(UnreadableConfiguration, match="at most"):
        parse("a.yaml", b" " * (BYTES_MAX + 1))


def test_written_yaml_is_for_people():
    text = to_yaml({"accounts": [{"code": "007", "name": "Zürich", "price": Decimal("1E+3")}]})

    assert text == "accounts:\n  - code: '007'\n    name: Zürich\n    price: 1000\n"
