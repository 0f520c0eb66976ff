"""NDJSON: both ways of decoding accept the same, exactly, and every kind of damage has one outcome."""

import json
import subprocess
import sys

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from meterlake.model.errors import UnreadableSource
from meterlake.model.measurements.measurement import UNKNOWN_COLUMN, Block, Category, Decoded, Field
from meterlake.model.values.money import parse_number, plain
from meterlake.stages.decode.json import FlatJsonDecoder, JsonDecoder, _line_by_line
from meterlake.stages.decode.split import LineSplitter
from meterlake.stages.ingest.validate import parse_columns as columns

FIELDS = (
    Field(Category.MEASURE, "gb"),
    Field(Category.WHERE, "region"),
    Field(Category.WHAT, "x y"),
)
NAMES = (
    "meter",
    "account",
    "uid",
    "ts",
    "ets",
    "measure.gb",
    "where.region",
    "what.x y",
    UNKNOWN_COLUMN,
)
LIMIT = 400


def block(data: bytes) -> Block:
    return Block(data, 1, data.count(b"\n") + (not data.endswith(b"\n")))


def decoder(limit: int = LIMIT) -> JsonDecoder:
    return JsonDecoder("f.ndjson", FIELDS, limit)


def rows(found: Decoded) -> list[dict]:
    """Rows by name, numbers as the validation reads them, without what is absent."""
    frame = found.frame
    if "measure.gb" in frame.columns:
        typed = columns.numbers(frame["measure.gb"])
        wrong = [False] * len(frame) if typed.wrong is None else typed.wrong
        shown = [
            "wrong" if bad else None if value is None else plain(value)
            for value, bad in zip(typed.values, wrong, strict=True)
        ]
        frame = frame.with_columns(pl.Series("measure.gb", shown, dtype=pl.String))
    return [{k: v for k, v in row.items() if v is not None} for row in frame.rows(named=True)]


def outcome(found: Decoded):
    return rows(found), sorted((bad.row, bad.reason, bad.field) for bad in found.rejected)


def both(data: bytes):
    """What comes out; checked to be the same both ways."""
    taken = outcome(decoder().decode(block(data)))
    text = data if data.endswith(b"\n") else data + b"\n"
    assert taken == outcome(_line_by_line(text, 1, LIMIT, decoder()._texts))
    return taken


def one(line: str | bytes):
    """The single row of a line, or its single rejection."""
    good, bad = both(line.encode() if isinstance(line, str) else line)
    assert len(good) + len(bad) == 1
    return good[0] if good else bad[0][1:]


def number(text: str):
    found = one(f'{{"measure":{{"gb":{text}}}}}')
    return found.get("measure.gb") if isinstance(found, dict) else found[0]


# --- what is accepted


def test_a_measurement_in_the_shape_of_the_wire_becomes_columns():
    line = json.dumps(
        {
            "meter": "egress",
            "account": "acme",
            "uid": "u1",
            "ts": "2026-10-01T00:00:00Z",
            "ets": "2026-10-01T00:00:01Z",
            "measure": {"gb": 1.25},
            "where": {"region": "eu \u00e9"},
            "what": {"x y": "z"},
        }
    )

    assert one(line) == {
        "row": 1,
        "meter": "egress",
        "account": "acme",
        "uid": "u1",
        "ts": "2026-10-01T00:00:00Z",
        "ets": "2026-10-01T00:00:01Z",
        "measure.gb": "1.25",
        "where.region": "eu é",
        "what.x y": "z",
    }


@pytest.mark.parametrize(
    "line", ["{}", '{"meter":null,"measure":null,"where":{}}', '{"measure":{"gb":null}}']
)
def test_null_and_missing_members_are_absent(line):
    assert one(line) == {"row": 1}


@pytest.mark.parametrize("more", ['"x":1', '"x":{"y":[1,{"z":2}]}', '"x":null', '"x":"2026-10-01"'])
def test_unknown_top_level_members_are_ignored(more):
    assert one(f'{{"meter":"m",{more}}}') == {"row": 1, "meter": "m"}


@pytest.mark.parametrize(
    "value", ["1", '"a"', "true", "[1]", '{"a":1}', "1e999", "99999999999999999999999"]
)
def test_an_unknown_field_is_named_for_the_validation_whatever_it_holds(value):
    assert one(f'{{"measure":{{"tb":{value}}},"who":{{"me":"x"}}}}')[UNKNOWN_COLUMN] == "who.me"


def test_unknown_names_make_no_columns_of_their_own():
    lines = b"".join(b'{"measure":{"made_up_%d":1}}\n' % n for n in range(500))

    frame = decoder().decode(block(lines)).frame

    assert frame.columns == ["row", UNKNOWN_COLUMN]
    assert frame[UNKNOWN_COLUMN][499] == "measure.made_up_499"


@pytest.mark.parametrize("value", ["5", "true", "[1]", '"a"'])
def test_a_known_code_in_another_category_keeps_its_column(value):
    assert "other.gb" in one(f'{{"other":{{"gb":{value}}},"measure":{{"gb":1}}}}')


def test_a_null_in_an_unknown_field_is_nothing():
    assert one('{"measure":{"tb":null}}') == {"row": 1}


# --- numbers


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("12345678901.123456", "12345678901.123456"),
        ("99999999.123457", "99999999.123457"),
        ("1e3", "1000"),
        ("1E-12", "0.000000000001"),
        ("-0", "0"),
        ("-0.0", "0"),
        ('"7.25"', "7.25"),
        ('"+7.25"', "7.25"),
        ('"1e5"', "100000"),
        ("99999999999999999999999999.999999999999", "99999999999999999999999999.999999999999"),
        ("0.1234567890125", "0.123456789012"),
        ("0.1234567890135", "0.123456789014"),
        ("0." + "1" * 40, "0.111111111111"),
        ("1" * 40, "wrong"),
        ("1e26", "wrong"),
        ("1e999", "wrong"),
        ("1e99999", "wrong"),
        ("1e00005", "wrong"),
        ('"1e00005"', "wrong"),
        ("1E+999999", "wrong"),
        ('"NaN"', "wrong"),
        ('"Infinity"', "wrong"),
        ('""', "wrong"),
        ('" 5"', "wrong"),
        ('"5 "', "wrong"),
        ('".5"', "wrong"),
        ('"5."', "wrong"),
        ('"5.e1"', "wrong"),
        ('"\\u002e5"', "wrong"),
        ('"5\\u002E"', "wrong"),
        ('"\\u0035"', "5"),
        ('"1_0"', "wrong"),
        ('"0x10"', "wrong"),
        ('"1,5"', "wrong"),
        ('"\uff11"', "wrong"),
        ("NaN", "wrong"),
        ("Infinity", "wrong"),
        ("-Infinity", "wrong"),
        ("true", "InvalidNumber"),
        ("[1]", "InvalidNumber"),
        ("{}", "InvalidNumber"),
        ("01", "MalformedRow"),
        (".5", "MalformedRow"),
        ("1.", "MalformedRow"),
        ("+1", "MalformedRow"),
        ("0x10", "MalformedRow"),
    ],
)
def test_a_number_is_exact_or_refused(text, value):
    assert number(text) == value


def number_texts() -> st.SearchStrategy[str]:
    digits = st.text("0123456789", min_size=1, max_size=45)
    signs = st.sampled_from(["", "-", "+"])
    fraction = st.just("") | digits.map(".{}".format)
    exponent = st.just("") | st.builds(
        "{}{}{}".format, st.sampled_from("eE"), signs, st.integers(0, 60)
    )
    return st.builds("{}{}{}{}".format, signs, digits, fraction, exponent)


@given(st.lists(number_texts(), min_size=1, max_size=6))
def test_quoted_numbers_are_read_as_the_grammar_reads_them(texts):
    data = b"".join(json.dumps({"measure": {"gb": text}}).encode() + b"\n" for text in texts)

    good, bad = both(data)

    assert bad == []
    expected = [parse_number(text) for text in texts]
    assert [row["measure.gb"] for row in good] == [
        "wrong" if value is None else plain(value) for value in expected
    ]


@given(st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**30), max_value=10**30))
def test_json_numbers_keep_every_digit(value):
    text = str(value)
    expected = parse_number(text)

    assert number(text) == ("wrong" if expected is None else plain(expected))


# --- what is refused, row by row


@pytest.mark.parametrize(
    ("line", "reason", "field"),
    [
        ('{"meter":5}', "UndefinedMeter", "meter"),
        ('{"meter":["x"]}', "UndefinedMeter", "meter"),
        ('{"account":5}', "InvalidAccountCode", "account"),
        ('{"uid":5}', "InvalidUid", "uid"),
        ('{"ts":1790000000}', "InvalidTimestamp", "ts"),
        ('{"ets":true}', "InvalidTimestamp", "ets"),
        ('{"where":{"region":5}}', "InvalidText", "where.region"),
        ('{"where":{"region":["eu"]}}', "InvalidText", "where.region"),
        ('{"where":{"region":"\\ud800"}}', "InvalidText", "where.region"),
        ('{"uid":"\\udfff"}', "InvalidUid", "uid"),
        ('{"where":{"\\ud800":"x"}}', "MalformedRow", "where"),
        ('{"measure":5}', "MalformedRow", "measure"),
        ('{"measure":[]}', "MalformedRow", "measure"),
        ('{"where":"eu"}', "MalformedRow", "where"),
        ('{"meter":"a","meter":"a"}', "DuplicateField", "meter"),
        ('{"measure":{"gb":1,"gb":1}}', "DuplicateField", "gb"),
        ('{"measure":{"gb":1},"measure":{}}', "DuplicateField", "measure"),
        ('{"x":{"y":1,"y":2}}', "DuplicateField", "y"),
        ('{"meter":"a","m\\u0065ter":"b"}', "DuplicateField", "meter"),
        ("[]", "MalformedRow", None),
        ("5", "MalformedRow", None),
        ('"x"', "MalformedRow", None),
        ("null", "MalformedRow", None),
        ("{", "MalformedRow", None),
        ('{"meter":"a"', "MalformedRow", None),
        ('{"meter":"a",}', "MalformedRow", None),
        ("{'meter':'a'}", "MalformedRow", None),
        ('{"meter":"a"}{"meter":"b"}', "MalformedRow", None),
        ('{"meter":"a"} {"meter":"b"}', "MalformedRow", None),
        ('{"meter":"a"},', "MalformedRow", None),
        ('{"meter":"a"}//', "MalformedRow", None),
        ('\ufeff{"meter":"a"}', "MalformedRow", None),
        ('{"meter":"a\tb"}', "MalformedRow", None),
        ('{"meter":"a\x00b"}', "MalformedRow", None),
        ('{"meter":"\\x"}', "MalformedRow", None),
        ("meter,account", "MalformedRow", None),
        ('{"x":"' + "y" * LIMIT + '"}', "MalformedRow", None),
    ],
)
def test_a_wrong_row_has_its_reason(line, reason, field):
    assert one(line) == (reason, field)


def test_deep_nesting_costs_its_line_and_not_the_process():
    lines = [
        '{"a":' + "[" * 150_000 + "1" + "]" * 150_000 + "}",
        '{"measure":' + '{"gb":' * 150_000 + "1" + "}" * 150_001,
        '{"x":' * 150_000 + "1" + "}" * 150_000,
        "[" * 400_000,
    ]
    code = (
        "import sys; from meterlake.model.measurements.measurement import Block;"
        "from meterlake.stages.decode.json import JsonDecoder;"
        "data = sys.stdin.buffer.read();"
        "found = JsonDecoder('f', (), 1 << 24).decode(Block(data, 1, 5));"
        "print([(bad.row, str(bad.reason)) for bad in found.rejected], found.frame['row'].to_list())"
    )

    done = subprocess.run(
        [sys.executable, "-c", code],
        input="\n".join([*lines, '{"meter":"m"}', ""]).encode(),
        capture_output=True,
        check=True,
    )

    rejected = [(number, "MalformedRow") for number in range(1, 5)]
    assert done.stdout.decode().strip() == f"{rejected} [5]"


def test_blank_lines_are_no_rows_but_count_as_lines():
    good, bad = both(b'\n{"meter":"a"}\n  \n\r\n{"meter":"b"}\n\n')

    assert [row["row"] for row in good] == [2, 5]
    assert bad == []


def test_an_object_over_two_lines_is_two_bad_lines():
    good, bad = both(b'{"meter":\n"a"}\n{"meter":"b"}\n')

    assert [row["row"] for row in good] == [3]
    assert [row for row, *_ in bad] == [1, 2]


def test_objects_that_share_lines_do_not_make_up_for_each_other():
    good, bad = both(b'{"meter":"a"}{"meter":"b"}\n{"meter":"c"}\n{"where":\n{"region":"x"}}\n')

    assert [row["row"] for row in good] == [2]
    assert [row for row, *_ in bad] == [1, 3, 4]


def test_what_is_not_utf_8_fails_the_file():
    with pytest.raises(UnreadableSource) as caught:
        decoder().decode(block(b'{"meter":"a"}\n{"meter":"\xff"}\n'))

    assert caught.value.reason == "InvalidEncoding"
    assert "line 2" in caught.value.detail


def test_long_names_are_cut_in_what_is_told():
    line = b'{"%s":1,"%s":2}\n' % (b"k" * 5000, b"k" * 5000)

    (bad,) = JsonDecoder("f", FIELDS, 1 << 20).decode(block(line)).rejected

    assert len(bad.detail) <= 200
    assert len(bad.field) <= 200


def test_the_fast_way_is_taken_for_clean_blocks():
    assert (
        decoder()._fast(b'{"meter":"a","measure":{"gb":1}}\n{"measure":{"gb":"1e-2"}}\n', 2)
        is not None
    )
    assert decoder()._fast(b'{"measure":{"gb":0.1234567890123456}}\n', 1) is not None


LINES = st.lists(
    st.sampled_from(
        [
            '{"meter":"a","measure":{"gb":1}}',
            '{"meter":"a","measure":{"gb":"2.5"},"where":{"region":"é"}}',
            '{"measure":{"gb":0.12345678901234}}',
            '{"measure":{"gb":true}}',
            '{"measure":{"tb":1}}',
            '{"x":1}',
            "{}",
            "",
            "[]",
            '{"meter":"a"}{"meter":"b"}',
            '{"meter":',
            '"a"}',
            '{"ts":5}',
            ' {"meter":"b"} ',
            '{"meter":"b"}\r',
            "x" * 90,
        ]
    ),
    max_size=12,
).map(lambda lines: "\n".join(lines).encode())


@given(LINES, st.integers(1, 80))
def test_the_same_rows_come_out_however_the_file_is_cut(data, size):
    def decoded(size):
        stream = (data[at : at + size] for at in range(0, len(data), size))
        good, bad = [], []
        for each in LineSplitter(80).split(stream):
            found = JsonDecoder("f", FIELDS, 80).decode(each)
            good += rows(found)
            bad += [
                (r.row, r.reason, r.detail, r.field, found.original(r.row)[:80])
                for r in found.rejected
            ]
        return good, sorted(bad, key=lambda row: row[0])

    assert decoded(size) == decoded(10_000)


@given(LINES)
def test_both_ways_agree_on_any_mixture_of_lines(data):
    if data:
        both(data)


# --- files for mappings


def flat(line: str, columns=("a", "a.b", "c", "d")):
    found = FlatJsonDecoder("f", columns, LIMIT).decode(block(line.encode()))
    assert set(found.frame.columns) <= {"row", *columns}
    return [
        {k: v for k, v in row.items() if v is not None} for row in found.frame.rows(named=True)
    ], [(bad.reason, bad.field) for bad in found.rejected]


def test_nested_members_become_columns_with_dots():
    assert flat('{"a":{"b":1.50,"z":{"q":1}},"c":"x","d":[1,"y"],"e":5}') == (
        [{"row": 1, "a.b": "1.50", "c": "x", "d": '["1", "y"]'}],
        [],
    )


def test_columns_that_a_mapping_reads_are_there_even_if_absent():
    frame = FlatJsonDecoder("f", ("a", "q"), LIMIT).decode(block(b'{"a":true}\n')).frame

    assert frame.rows() == [(1, "true", None)]


def test_a_member_under_two_names_is_refused():
    assert flat('{"a":{"b":1},"a.b":2}') == ([], [("DuplicateField", "a.b")])


def test_half_a_surrogate_pair_is_refused():
    assert flat('{"c":"\\ud800"}') == ([], [("InvalidText", "c")])


@pytest.mark.parametrize(
    "number", ["350000000000000000000000000", "-" + "9" * 27, "1" * 40, "9" * 39 + ".5"]
)
@pytest.mark.parametrize("quote", ["", '"'])
def test_a_number_that_arrow_would_wrap_around_is_refused(number, quote):
    good, bad = both(f'{{"uid":"u","measure":{{"gb":{quote}{number}{quote}}}}}'.encode())
    assert [row["measure.gb"] for row in good] == ["wrong"]
    assert bad == []


@pytest.mark.parametrize("slow", [False, True])
def test_empty_lines_are_no_rows_but_count_as_lines(slow):
    more = {"unknown": 1} if slow else {}
    lines = [json.dumps({"uid": uid, "measure": {"gb": 1}} | more).encode() for uid in "abc"]
    data = b"\n" + lines[0] + b"\n\n\n" + lines[1] + b"\n" + lines[2] + b"\n\n"
    decoder = JsonDecoder("test", FIELDS, 1 << 20)
    found = decoder.decode(Block(data, 11, data.count(b"\n")))

    assert found.frame["uid"].to_list() == ["a", "b", "c"]
    assert found.frame["row"].to_list() == [12, 15, 16]
    assert found.rejected == []
    assert found.original(15) == lines[1].decode()
    assert (decoder._fast(lines[0] + b"\n", 1) is None) == slow


# --- lines that differ in nothing but their values


TEXTS = st.text(st.characters(exclude_categories=("Cs", "Cc"), exclude_characters='"\\'))
ALIKE_NUMBERS = st.one_of(
    st.integers(-(10**26) + 1, 10**26 - 1).map(str),
    st.decimals(-(10**6), 10**6, allow_nan=False, places=12).map(lambda each: f"{each:f}"),
)
FORMS = (
    '{"uid":"%s","measure":{"gb":%s},"where":{"region":"%s"}}',
    '{ "measure" : { "gb" : %s } , "uid" : "%s", "where":{},"what":{"x y":"%s"} } ',
    '{"what":{},"measure":{"gb":%s}}',
    '{"ts":"%s"}',
)


@st.composite
def alike_lines(draw):
    form = draw(st.sampled_from(FORMS))
    kinds = [ALIKE_NUMBERS if part.endswith(":") else TEXTS for part in _before(form)]
    rows = draw(st.lists(st.tuples(*kinds), min_size=1, max_size=8))
    return "".join(f"{form % row}\n" for row in rows).encode()


def _before(form: str) -> list[str]:
    return [part.rstrip() for part in form.split("%s")[:-1]]


def is_read_in_place(data: bytes) -> bool:
    return decoder()._alike(data, data.count(b"\n")) is not None


@given(alike_lines())
def test_lines_that_differ_in_values_alone_are_read_in_place(data):
    good, bad = both(data)

    assert (len(good), bad) == (data.count(b"\n"), [])
    assert is_read_in_place(data)


@given(
    alike_lines(), st.integers(0), st.integers(0, 2), st.sampled_from([*'{}:,"\\0e-.\t\n x', ""])
)
def test_one_byte_that_is_otherwise_changes_its_line_alone(data, place, gone, put):
    place %= len(data)
    changed = data[:place] + put.encode() + data[place + gone :]
    try:
        changed.decode()
    except UnicodeDecodeError:
        return
    if changed:
        both(changed)


@pytest.mark.parametrize(
    "other",
    [
        '{"uid":"b","measure":{"gb":01}}',
        '{"uid":"b","measure":{"gb":1e3}}',
        '{"uid":"b","measure":{"gb":null}}',
        '{"uid":"b","measure":{"gb":"1"}}',
        '{"uid":"b","measure":{"gb":1.0000000000001}}',
        '{"uid":"b","measure":{"gb":100000000000000000000000000}}',
        '{"uid":"b\\u0041","measure":{"gb":1}}',
        '{"uid":"b","measure":{"gb":1},"more":1}',
        '{"uiD":"b","measure":{"gb":1}}',
        '{"uid":"b" ,"measure":{"gb":1}}',
        '{"measure":{"gb":1},"uid":"b"}',
    ],
)
def test_a_line_of_another_form_leaves_the_block_to_others(other):
    data = f'{{"uid":"a","measure":{{"gb":1}}}}\n{other}\n'.encode()

    both(data)

    assert not is_read_in_place(data)


@pytest.mark.parametrize("count", [4095, 4096, 4097])
def test_lines_of_many_parts_keep_their_values(count):
    data = "".join(f'{{"uid":"{n * 997}","measure":{{"gb":{n}.5}}}}\n' for n in range(count))
    frame = decoder()._alike(data.encode(), count)

    assert frame is not None
    assert frame["uid"].to_list() == [str(n * 997) for n in range(count)]
    assert [plain(value) for value in frame["measure.gb"]] == [f"{n}.5" for n in range(count)]
