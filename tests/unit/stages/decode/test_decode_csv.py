"""CSV: both ways of decoding give the same rows, and every kind of damage has one outcome."""

import csv
import io
import random
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meterlake.model.errors import UnreadableSource
from meterlake.model.measurements.columns import COLUMNS_MAX
from meterlake.model.measurements.measurement import Block, Decoded
from meterlake.model.measurements.text import utf8_lines
from meterlake.stages.decode.csv import CsvDecoder, header
from meterlake.stages.decode.split import LineSplitter

COLUMNS = ("a", "b", "c")
LIMIT = 200


def decode(data: bytes, columns=COLUMNS, limit: int = LIMIT, delimiter: str = ",") -> Decoded:
    block = Block(data, 1, data.count(b"\n") + (not data.endswith(b"\n")))
    return CsvDecoder("f.csv", columns, limit, delimiter).decode(block)


def rows(decoded: Decoded) -> list[tuple]:
    return decoded.frame.select("row", *[n for n in decoded.frame.columns if n != "row"]).rows()


def outcome(decoded: Decoded):
    return sorted(rows(decoded)), sorted((bad.row, bad.reason) for bad in decoded.rejected)


def by_hand(data: bytes, columns=COLUMNS, limit: int = LIMIT):
    decoder = CsvDecoder("f.csv", columns, limit)
    text = utf8_lines(Block(data, 1, 1), "f.csv")
    frame, rejected = decoder._slow(text)
    shifted = sorted((row + 1, *rest) for row, *rest in frame.rows())
    return shifted, sorted((bad.row + 1, bad.reason) for bad in rejected)


def rejected(data: bytes, **more) -> list[tuple[int, str]]:
    return [(bad.row, bad.detail) for bad in decode(data, **more).rejected]


# --- the header


@pytest.mark.parametrize(
    ("line", "names"),
    [
        (b"a,b", ["a", "b"]),
        (b' a , "b" ', ["a", '"b"']),
        (b'"a","b c"', ["a", "b c"]),
        (b"a,b,", ["a", "b", ""]),
        ("grün,b".encode(), ["grün", "b"]),
    ],
)
def test_the_header_names_the_columns(line, names):
    assert header(line, "f.csv") == names


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"", "MissingHeader"),
        (b"   ", "MissingHeader"),
        (b",,", "MissingHeader"),
        (b'"a', "MissingHeader"),
        (b'"a"b,c', "MissingHeader"),
        (b"\xff\xfe,a", "MissingHeader"),
        (b"a,b,a", "DuplicateColumn"),
        (b"a, a", "DuplicateColumn"),
        (b"a,,b,", "DuplicateColumn"),
        (b",".join(b"c%d" % each for each in range(100_000)), "TooManyColumns"),
    ],
)
def test_a_header_that_cannot_be_used_is_refused(line, reason):
    with pytest.raises(UnreadableSource) as caught:
        header(line, "f.csv")

    assert caught.value.reason == reason


def test_columns_up_to_the_limit_are_read_and_messages_stay_short():
    names = [f"c{each}" for each in range(COLUMNS_MAX)]

    assert header(",".join(names).encode(), "f.csv") == names
    with pytest.raises(UnreadableSource, match="2001 columns; a file may have 2000"):
        header(",".join([*names, "more"]).encode(), "f.csv")
    with pytest.raises(UnreadableSource, match="and 980 more") as caught:
        header(",".join([*names[:1000]] * 2).encode(), "f.csv")
    assert len(str(caught.value)) < 300


# --- rows


def test_empty_is_absent_and_rows_are_numbered_by_their_lines():
    assert rows(decode(b"1,,3\n,,\nx,y,\n")) == [
        (1, "1", None, "3"),
        (2, None, None, None),
        (3, "x", "y", None),
    ]


def test_quotes_hold_delimiters_line_breaks_and_doubled_quotes():
    data = b'1,"x,y","a ""b"" c"\n2,"p\nq",""\n3,4,5\n'

    assert rows(decode(data)) == [
        (1, "1", "x,y", 'a "b" c'),
        (2, "2", "p\nq", None),
        (4, "3", "4", "5"),
    ]


@pytest.mark.parametrize(
    "tail",
    [
        pytest.param(b"", id="in columns"),
        pytest.param(b'2,"p\nq",3\n', id="with a line break"),
        pytest.param(b'2,"p\r\nq",3\n', id="with a CRLF"),
        pytest.param(b'1,x"y,3\n', id="line by line"),
    ],
)
def test_an_empty_value_in_quotes_is_a_text_where_the_column_holds_texts(tail):
    data = b'"","",""\n,,\nx,y,"a""b"\n' + tail
    block = Block(data, 1, data.count(b"\n"))

    found = CsvDecoder("f.csv", COLUMNS, LIMIT, texts=frozenset({"b", "c"})).decode(block)

    assert found.frame.select("row", *COLUMNS).rows()[:3] == [
        (1, None, "", ""),
        (2, None, None, None),
        (3, "x", "y", 'a"b'),
    ]


@pytest.mark.parametrize("blank", [b"\n", b"\n\n\n"])
def test_blank_lines_are_no_rows_but_count_as_lines(blank):
    data = blank + b"1,2,3\n" + blank + b"4,5,6\n" + blank

    found = decode(data)

    assert found.rejected == []
    assert [row[0] for row in rows(found)] == [1 + len(blank), 2 + 2 * len(blank)]


@pytest.mark.parametrize("row", [b"1,2,3\n", b'"1",2,3\n', b'1,"2\n\n2",3\n', b"1,\r2,3\n"])
def test_many_blank_lines_cost_no_more_than_rows(row):
    """Also beside rows that only the slow way reads; line by line it was 2.5 s for a MiB."""
    blank, plain = b"\n" * (1 << 18), b"1,2,3\n" * ((1 << 18) // 6)
    decode(plain)

    begun = time.process_time()
    decode(plain)
    rows_s = time.process_time() - begun
    begun = time.process_time()
    found = decode(blank + row + blank)
    blank_s = time.process_time() - begun

    assert blank_s < 20 * rows_s + 0.1
    assert [bad.row for bad in found.rejected] + [each[0] for each in rows(found)] == [
        (1 << 18) + 1
    ]


def test_blank_lines_among_ragged_and_quoted_rows_count_as_lines():
    data = b'\n\n"1",2,3\n\n1,2\n\n\n4,5,"6"\n\n1,2,3,4\n7,8,9\n\n'

    assert outcome(decode(data)) == by_hand(data)
    assert [row[0] for row in rows(decode(data))] == [3, 8, 11]
    assert [row for row, _ in rejected(data)] == [5, 10]


def test_a_ragged_row_is_rejected_and_harms_no_other():
    assert rejected(b"1,2,3\n1,2\n1,2,3,4\n4,5,6\n \n") == [
        (2, "2 columns where the header has 3"),
        (3, "4 columns where the header has 3"),
        (5, "1 columns where the header has 3"),
    ]
    assert [row[0] for row in rows(decode(b"1,2,3\n1,2\n1,2,3,4\n4,5,6\n \n"))] == [1, 4]


def test_ragged_rows_among_quotes_keep_their_numbers():
    data = b'"1",2,3\n"1",2\n4,"5",6\n1,2,3,"4"\n7,8,"9"\n'

    assert [row[0] for row in rows(decode(data))] == [1, 3, 5]
    assert [row for row, _ in rejected(data)] == [2, 4]


def test_a_quote_that_nothing_closes_costs_its_line_only():
    data = b'1,"2,3\n4,5,6\n7,8,9\n'

    assert [row[0] for row in rows(decode(data))] == [2, 3]
    assert rejected(data) == [(1, "a quote that nothing closes, or text after a closing quote")]


def test_text_after_a_closing_quote_costs_its_line_only():
    data = b'1,"2"x,3\n4,5,6\n'

    assert [row[0] for row in rows(decode(data))] == [2]
    assert [row for row, _ in rejected(data)] == [1]


def test_a_stray_quote_inside_a_value_is_a_character():
    assert rows(decode(b'1,5" disk,3\n4,a"b"c,6\n')) == [
        (1, "1", '5" disk', "3"),
        (2, "4", 'a"b"c', "6"),
    ]


def test_a_lone_carriage_return_is_no_line_break_and_costs_its_line_only():
    data = b'1,2\r,3\n"x\ry",5,6\n7,8,9\n'

    assert rows(decode(data)) == [(2, "x\ry", "5", "6"), (3, "7", "8", "9")]
    assert rejected(data) == [(1, "a carriage return outside of quotes")]


def test_nul_bytes_and_other_controls_are_characters():
    assert rows(decode(b"\x00,a\x00b,\x01\n1,2,3\n"))[0] == (1, "\x00", "a\x00b", "\x01")


def test_a_byte_order_mark_inside_the_file_is_a_character():
    assert rows(decode(b"\xef\xbb\xbf1,2,3\n"))[0] == (1, "\ufeff1", "2", "3")
    assert rows(decode(b'\xef\xbb\xbf1,"2",3\n'))[0] == (1, "\ufeff1", "2", "3")


def test_no_line_break_at_the_end_is_no_loss():
    assert rows(decode(b"1,2,3\n4,5,6")) == [(1, "1", "2", "3"), (2, "4", "5", "6")]


def test_a_line_cut_in_the_middle_is_rejected():
    assert [row for row, _ in rejected(b"1,2,3\n4,")] == [2]


def test_a_line_that_is_too_long_is_rejected_and_its_neighbours_stay():
    data = b"1,2,3\n4," + b"x" * LIMIT + b",6\n7,8,9\n"

    assert [row[0] for row in rows(decode(data))] == [1, 3]
    assert rejected(data) == [(2, f"longer than {LIMIT} bytes")]


def test_length_is_counted_in_bytes_and_up_to_the_limit():
    fits = "é" * ((LIMIT - 4) // 2)

    assert rejected(f"1,{fits},3\n".encode()) == []
    assert rejected(f"1,{fits},34\n".encode()) == [(1, f"longer than {LIMIT} bytes")]


def test_an_oversized_block_is_one_rejection_with_the_beginning_as_its_original():
    decoder = CsvDecoder("f.csv", COLUMNS, LIMIT)

    found = decoder.decode(Block(b"1,xxx", 7, 1, oversized=True))

    assert [(bad.row, bad.reason) for bad in found.rejected] == [(7, "MalformedRow")]
    assert found.original(7) == "1,xxx"
    assert len(found.frame) == 0


@pytest.mark.parametrize(
    "bad", [b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xf5\x80\x80\x80", b"\xc0\xaf"]
)
def test_what_is_not_utf_8_fails_the_file_and_names_the_line(bad):
    with pytest.raises(UnreadableSource) as caught:
        decode(b"1,2,3\n4," + bad + b",6\n")

    assert caught.value.reason == "InvalidEncoding"
    assert "line 2" in caught.value.detail


def test_the_original_text_of_a_row_is_its_first_line():
    decoded = decode(b'1,2\nx,"y\nz",w,\n4,5,6\n')

    assert [decoded.original(row) for row in (1, 2, 4)] == ["1,2", 'x,"y', "4,5,6"]


def test_an_original_text_is_cut_after_four_thousand_characters():
    decoded = decode(b"1," + b"x" * 5000 + b"\n", limit=10_000)

    assert len(decoded.original(1)) == 4096


@pytest.mark.parametrize("delimiter", [";", "\t", "|", "\x01", "^", "\\", "]"])
def test_any_delimiter_that_a_mapping_may_name_works(delimiter):
    data = f'1{delimiter}2,x{delimiter}3\n4{delimiter}"5{delimiter}"{delimiter}6\n'.encode()

    plain = decode(data.partition(b"\n")[0] + b"\n", delimiter=delimiter)
    both = decode(data, delimiter=delimiter)

    assert rows(plain) == [(1, "1", "2,x", "3")]
    assert rows(both) == [(1, "1", "2,x", "3"), (2, "4", f"5{delimiter}", "6")]


def test_a_file_of_one_column_works():
    assert rows(decode(b'x\n\n"y"\n', columns=("a",))) == [(1, "x"), (3, "y")]


# --- both ways

PIECES = [
    '"',
    '""',
    ",",
    ",",
    "\n",
    "\n",
    "\r",
    "\r\n",
    "a",
    "bb",
    '"a"',
    '"x\ny"',
    "é",
    "\x00",
    " ",
    "\ufeff",
    "1.5",
]
MESSY = st.lists(st.sampled_from(PIECES), max_size=40).map("".join)
VALUE = st.text('ab,"\né \x00;', max_size=5)


@given(MESSY)
def test_the_fast_way_and_the_slow_way_agree_on_any_text(text):
    data = text.encode().replace(b"\r\n", b"\n")

    assert outcome(decode(data, limit=60)) == by_hand(data, limit=60)


@given(st.lists(st.lists(VALUE, min_size=3, max_size=3), max_size=8), st.sampled_from([0, 1, 2]))
def test_what_the_csv_module_writes_is_read_back(table, quoting):
    out = io.StringIO()
    csv.writer(out, lineterminator="\n", quoting=quoting).writerows(table)

    found = decode(out.getvalue().encode() or b"\n", limit=10_000)

    assert [row[1:] for row in rows(found)] == [tuple(v or None for v in row) for row in table]


@given(st.lists(st.lists(st.text("ab1. é", max_size=4), min_size=1, max_size=5), max_size=12))
def test_ragged_text_without_quotes_is_read_the_same_both_ways(table):
    data = "\n".join(",".join(row) for row in table).encode() + b"\n"

    assert outcome(decode(data)) == by_hand(data)


@given(MESSY, st.integers(1, 64))
def test_the_same_rows_come_out_however_the_file_is_cut(text, size):
    data = text.encode().replace(b"\r\n", b"\n")
    decoder = CsvDecoder("f.csv", COLUMNS, 30)

    def decoded(size):
        stream = (data[at : at + size] for at in range(0, len(data), size))
        good, bad = [], []
        for block in LineSplitter(30, decoder.records).split(stream):
            found = decoder.decode(block)
            good += rows(found)
            bad += [
                (each.row, each.reason, each.detail, found.original(each.row))
                for each in found.rejected
            ]
        return good, sorted(bad)

    assert decoded(size) == decoded(10_000)


def test_the_fast_ways_are_taken_where_they_can_be():
    decoder = CsvDecoder("f.csv", COLUMNS, LIMIT)

    assert decoder._fast(b"1,2,3\n,,\n", 2) is not None
    assert decoder._fast(b'1,"2",3\n4,,""\n', 2) is not None
    assert decoder._fast(b"1,2,3\n4,5\n", 2) is not None
    assert decoder._fast(b'1,5" disk,3\n', 1) is None


def test_quotes_that_never_close_do_not_take_for_ever():
    data = b'a","""x\n' * 10_000

    found = decode(data, limit=1 << 20)

    assert len(found.frame) + len(found.rejected) == 10_000


def test_a_hundred_thousand_bad_rows_are_all_told():
    chance = random.Random(5)
    lines = [b"1,2" if chance.random() < 0.5 else b"1,2,3" for _ in range(100_000)]

    found = decode(b"\n".join(lines) + b"\n", limit=1 << 20)

    assert [bad.row for bad in found.rejected] == [
        n for n, line in enumerate(lines, 1) if line == b"1,2"
    ]
