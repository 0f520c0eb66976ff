"""Cutting a stream into blocks of whole records."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meterlake.model.errors import UnreadableSource
from meterlake.model.measurements.measurement import Block
from meterlake.model.measurements.text import RECORD_LINES_MAX, CsvRecords
from meterlake.stages.decode.split import ArraySplitter, LineSplitter, plain_text

LIMIT = 40


def chunked(data: bytes, size: int) -> list[bytes]:
    return [data[at : at + size] for at in range(0, len(data), size)]


def lines(data: bytes, size: int = 7, limit: int = LIMIT) -> list[Block]:
    return list(LineSplitter(limit).split(chunked(data, size)))


def csv_blocks(data: bytes, size: int = 7, limit: int = LIMIT) -> list[Block]:
    return list(LineSplitter(limit, CsvRecords(",", limit)).split(chunked(data, size)))


def elements(data: bytes, size: int = 7, limit: int = LIMIT) -> list[tuple[int, bytes]]:
    found = []
    for block in ArraySplitter(limit, "a.json").split(chunked(data, size)):
        rows = [block.data] if block.oversized else block.data.splitlines()
        assert block.oversized or len(rows) == block.lines
        found += [(block.first + place, row) for place, row in enumerate(rows)]
    assert [row for row, _ in found] == list(range(1, len(found) + 1))
    return found


def refusal(data: bytes, size: int = 7) -> str:
    with pytest.raises(UnreadableSource) as caught:
        elements(data, size)
    return caught.value.detail


def text(data: bytes, size: int = 7) -> bytes:
    return b"".join(plain_text(chunked(data, size), "a.csv"))


# --- the text itself


@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_a_byte_order_mark_at_the_start_is_dropped_wherever_the_stream_is_cut(size):
    assert text(b"\xef\xbb\xbfmeter\n", size) == b"meter\n"


def test_a_byte_order_mark_further_on_is_left_alone():
    assert text(b"meter\n\xef\xbb\xbfx\n") == b"meter\n\xef\xbb\xbfx\n"


@pytest.mark.parametrize("size", [1, 2, 3, 100])
@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be", "utf-32"])
def test_utf_16_with_its_mark_is_refused_as_a_whole(size, encoding):
    data = "\ufeffmeter".encode(encoding) if encoding == "utf-16-be" else "meter".encode(encoding)

    with pytest.raises(UnreadableSource) as caught:
        text(data, size)

    assert caught.value.reason == "InvalidEncoding"


@pytest.mark.parametrize("data", [b"\xff\xfe", b"\xfe\xff", b"\xff\xfe\n"])
def test_a_mark_of_utf_16_and_nothing_else_is_refused(data):
    with pytest.raises(UnreadableSource):
        text(data)


@pytest.mark.parametrize("data", [b"", b"a", b"\r", b"ab", b"\n"])
def test_text_shorter_than_a_mark_passes(data):
    assert text(data, 1) == data


@given(
    st.binary(max_size=30).map(lambda data: data.translate(bytes.maketrans(b"\0\1\2", b"\r\n\r")))
)
def test_crlf_becomes_lf_wherever_the_stream_is_cut(data):
    data = b"abc" + data

    assert {text(data, size) for size in (1, 2, 3, 5, 100)} == {data.replace(b"\r\n", b"\n")}


# --- lines


@given(st.lists(st.integers(0, LIMIT * 3), max_size=8), st.booleans(), st.integers(1, 100))
def test_lines_come_out_as_they_went_in_with_their_numbers(lengths, closed, size):
    rows = [bytes([97 + place]) * length for place, length in enumerate(lengths)]
    data = b"\n".join(rows) + (b"\n" if closed else b"")

    found = {}
    for block in lines(data, size):
        kept = [b"long"] if block.oversized else block.data.removesuffix(b"\n").split(b"\n")
        assert len(kept) == block.lines
        found |= {block.first + place: row for place, row in enumerate(kept)}

    expected = data.removesuffix(b"\n").split(b"\n") if data else []
    for number, row in enumerate(expected, 1):
        # A line that is too long is cut out, or left for the decoder to refuse.
        assert found[number] in ([row, b"long"] if len(row) > LIMIT else [row])
    assert len(found) == len(expected)


def test_a_line_of_forty_megabytes_takes_no_more_memory_than_the_limit():
    splitter = LineSplitter(1 << 20)
    held = []

    def stream():
        yield b"before\n"
        for _ in range(40):
            held.append(len(splitter.rest))
            yield b"x" * (1 << 20)
        yield b"\nafter\n"

    blocks = list(splitter.split(stream()))

    assert [(block.first, block.lines, block.oversized) for block in blocks] == [
        (1, 1, False),
        (2, 1, True),
        (3, 1, False),
    ]
    assert len(blocks[1].data) == 4096
    assert max(held) <= 1 << 20


# --- records of CSV


def test_a_line_break_between_quotes_does_not_end_a_block():
    data = b'1,"a\nb"\n2,c\n'

    assert [block.data for block in csv_blocks(data, 8)] == [b'1,"a\nb"\n', b"2,c\n"]
    assert [block.first for block in csv_blocks(data, 8)] == [1, 3]


def test_a_quote_that_nothing_closes_costs_its_own_line_only():
    data = b'1,"a\n' + b"2,b\n" * 30

    blocks = csv_blocks(data, 50)

    assert b"".join(block.data for block in blocks) == data
    assert [block.first for block in blocks] == sorted(block.first for block in blocks)
    assert len(blocks) > 2


def test_a_record_of_too_many_lines_is_a_quote_that_nothing_closes():
    inside = b"\n" * RECORD_LINES_MAX
    data = b'1,"' + inside + b'"\n2,b\n'

    records = list(CsvRecords(",", 1 << 20).walk(data, final=True))

    assert [record.whole for record in records[:2]] == [False, True]
    assert records[-1].line == RECORD_LINES_MAX + 1
    shorter = b'1,"' + inside[1:] + b'"\n2,b\n'
    assert [record.whole for record in CsvRecords(",", 1 << 20).walk(shorter, final=True)] == [
        True
    ] * 2


CSV_TEXT = st.lists(
    st.sampled_from(
        ['"', '""', ",", "\n", "\r", "a", "bb", '"a"', '"x\ny"', '5" b', ',"', '",', "é"]
    ),
    max_size=40,
).map(lambda parts: "".join(parts).encode())


def walked(data: bytes, limit: int) -> list[tuple[int, bool]]:
    whole = data if data.endswith(b"\n") or not data else data + b"\n"
    return [(r.line, r.whole) for r in CsvRecords(",", limit).walk(whole, final=True)]


@given(CSV_TEXT, st.integers(1, 30), st.sampled_from([12, 1000]))
def test_records_are_the_same_however_the_stream_is_cut(data, size, limit):
    found = []
    for block in csv_blocks(data, size, limit):
        if block.oversized:
            found.append((block.first - 1, False))
            continue
        found += [(block.first - 1 + line, whole) for line, whole in walked(block.data, limit)]

    assert found == walked(data, limit)


@given(CSV_TEXT)
def test_counting_quotes_agrees_with_walking_where_it_answers(data):
    data += b"\n"
    records = CsvRecords(",", 25)

    ends = records.plain_ends(data)

    if ends is not None and len(ends) and ends[-1] == len(data):
        walk = list(records.walk(data, final=True))
        assert all(record.whole for record in walk)
        # Blank lines that follow each other are one record of the walk.
        starts = [0, *ends[:-1]]
        held = [end for start, end in zip(starts, ends, strict=True) if end - start > 1]
        assert [each.end for each in walk if data[each.start] != ord("\n")] == held
        assert walk[-1].end == ends[-1]


# --- elements of a JSON array


def test_the_elements_of_a_pretty_printed_array_become_lines():
    rows = [{"a": 1, "b": {"c": ["x", "}, {"]}}, {"a": 2}, {}]
    data = json.dumps(rows, indent=2).encode()

    assert [json.loads(row) for _, row in elements(data, 7, 1000)] == rows


@pytest.mark.parametrize("data", [b"[]", b" [ \n ] ", b"[\n]\n\n"])
def test_an_empty_array_has_no_elements(data):
    assert elements(data) == []


JSON_VALUE = st.recursive(
    st.none() | st.integers() | st.text('a"\\{}[],\n é', max_size=6),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text('k"{', max_size=2), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(st.lists(JSON_VALUE, max_size=6), st.integers(1, 60), st.sampled_from([None, 1]))
def test_any_array_comes_apart_the_same_wherever_the_stream_is_cut(values, size, indent):
    data = json.dumps(values, indent=indent, ensure_ascii=False).encode()

    assert [json.loads(row) for _, row in elements(data, size, 10_000)] == values


@given(
    st.lists(
        st.sampled_from([b"{", b"}", b"[", b"]", b",", b'"', b"\\", b"1", b" ", b'{"a":1}', b"\n"]),
        max_size=25,
    ),
    st.integers(1, 30),
)
def test_what_is_no_array_is_refused_or_cut_the_same_wherever_the_stream_is_cut(parts, size):
    data = b"[" + b"".join(parts)

    def outcome(size):
        try:
            return [row.strip() for _, row in elements(data, size, 10_000)]
        except UnreadableSource as error:
            return error.reason

    assert outcome(size) == outcome(1000)


def test_an_element_that_is_broken_inside_harms_no_other():
    data = b'[{"a":1},{"a":},{"a" 2},5,"x",{"a":3}]'

    rows = [row for _, row in elements(data, 1000)]

    assert rows == [b'{"a":1}', b'{"a":}', b'{"a" 2}', b"5", b'"x"', b'{"a":3}']


def test_an_element_that_is_too_long_is_cut_out_and_its_neighbours_stay():
    long = b'{"a":"' + b'},{\\"]' * 100 + b'"}'
    data = b'[{"b":1},' + long + b',{"b":2}]'

    for size in (5, 64, 10_000):
        found = elements(data, size)
        assert found[0] == (1, b'{"b":1}')
        assert found[2] == (3, b'{"b":2}')
        assert long.startswith(found[1][1])


def test_an_element_of_forty_megabytes_takes_no_more_memory_than_the_limit():
    splitter = ArraySplitter(1 << 20, "a.json")
    held = []

    def stream():
        yield b'[{"a":1},{"a":"'
        for _ in range(40):
            held.append(len(splitter.rest))
            yield b"x" * (1 << 20)
        yield b'"},{"a":2}]'

    blocks = list(splitter.split(stream()))

    assert [(block.first, block.oversized) for block in blocks] == [
        (1, False),
        (2, True),
        (3, False),
    ]
    assert max(held) <= 2 << 20


def test_an_element_with_many_nested_objects_is_found():
    value = {"a": [{"b": n} for n in range(500)]}
    data = json.dumps([value, value]).encode()

    assert [json.loads(row) for _, row in elements(data, 3000, 100_000)] == [value, value]


def test_a_raw_line_break_inside_a_text_is_not_mended():
    (_, row), _ = elements(b'[{"a":"x\ny"},{"a":1}]')

    with pytest.raises(ValueError, match="Invalid control character"):
        json.loads(row)


@pytest.mark.parametrize(
    ("data", "detail"),
    [
        (b"", "empty"),
        (b"  \n ", "empty"),
        (b"{}", "must be an array"),
        (b'{"measurements":[]}', "must be an array"),
        (b"null", "must be an array"),
        (b"[", "cut short"),
        (b'[{"a":1}', "cut short"),
        (b'[{"a":1},', "cut short"),
        (b'[{"a":1},{"a":', "cut short"),
        (b'[{"a":"]', "cut short"),
        (b"[{}] x", "something follows"),
        (b"[{}][{}]", "something follows"),
        (b"[{}]]", "something follows"),
        (b"[{},]", "element 2 is empty"),
        (b"[,{}]", "element 1 is empty"),
        (b"[{},,{}]", "element 2 is empty"),
        (b"[{}}]", "closes nothing"),
    ],
)
@pytest.mark.parametrize("size", [1, 3, 100])
def test_what_is_not_one_whole_array_is_refused(data, detail, size):
    assert detail in refusal(data, size)


@pytest.mark.parametrize("opened", [b"[", b'{"a":', b'[{"a":'])
def test_brackets_without_end_are_refused_before_all_are_read(opened):
    chunks = iter([b"[" + opened * 9_000, opened * 9_000, opened * 9_000])
    with pytest.raises(UnreadableSource, match="element 1 opens more than 10,000 brackets"):
        list(ArraySplitter(1 << 20, "a.json").split(chunks))

    assert len(list(chunks)) >= 1


def test_as_many_brackets_as_are_closed_again_are_one_element():
    data = b"[" + b"[" * 20_000 + b"]" * 20_000 + b"]"
    assert [each.data.count(b"[") for each in ArraySplitter(1 << 20, "a").split([data])] == [20_000]
