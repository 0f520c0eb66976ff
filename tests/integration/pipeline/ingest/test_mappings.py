"""Mapping files: what is refused, and which file a mapping claims."""

import pytest

from meterlake.model.errors import Invalid, NotFound, UnreadableMapping
from meterlake.model.measurements.mapping import parse_mapping
from meterlake.pipeline.ingest.files import claiming, folder_mappings, load_mapping

MAPPING = {
    "files": ["*.csv"],
    "account": {"column": "who"},
    "ts": "at",
    "measurements": [{"meter": "egress", "fields": {"measure.gb": "sent"}}],
}
TEXT = """
files: ["*.csv"]
account: {column: who}
ts: at
measurements: [{meter: egress, fields: {measure.gb: sent}}]
"""


def changed(**change):
    return parse_mapping(MAPPING | change, "m")


def test_a_mapping_without_a_name_has_that_of_its_file(tmp_path):
    path = tmp_path / "gateway.v2.yaml"
    path.write_text(TEXT)

    assert load_mapping(path).name == "gateway.v2"


@pytest.mark.parametrize(
    "change",
    [
        {"files": "*.csv"},
        {"typo": 1},
        {"ts": ""},
        {"ts": None},
        {"format": "xml"},
        {"delimiter": ""},
        {"delimiter": "ab"},
        {"delimiter": "a"},
        {"delimiter": '"'},
        {"delimiter": " "},
        {"delimiter": "\n"},
        {"delimiter": "§"},
        {"account": {}},
        {"account": {"column": "a", "value": "b"}},
        {"account": {"filename": "("}},
        {"account": {"filename": "no group"}},
        {"measurements": []},
        {"measurements": [{"meter": "m", "fields": {"gb": "x"}}]},
        {"measurements": [{"meter": "m", "fields": {"size.gb": "x"}}]},
        {"measurements": [{"meter": "m", "constants": {"measure.gb": 1.5}}]},
        {"measurements": [{"meter": "m", "defaults": {"measure.gb": 1}}]},
        {"measurements": [{"meter": "m", "when": {"sometimes": ["x"]}}]},
    ],
)
def test_a_mapping_that_breaks_a_rule_is_refused(change):
    with pytest.raises(UnreadableMapping):
        changed(**change)


@pytest.mark.parametrize("document", [None, [], "text", 5])
def test_what_is_no_map_is_no_mapping(document):
    with pytest.raises(UnreadableMapping):
        parse_mapping(document, "m")


@pytest.mark.parametrize("text", ["", "a: [", "a: 1\na: 2", "\xff"])
def test_a_file_that_is_no_yaml_is_refused(tmp_path, text):
    path = tmp_path / "m.yaml"
    path.write_bytes(text.encode("latin-1"))

    with pytest.raises(UnreadableMapping):
        load_mapping(path)


def test_a_mapping_file_must_exist(tmp_path):
    with pytest.raises(NotFound):
        load_mapping(tmp_path / "m.yaml")


def test_the_first_mapping_by_name_claims_a_file(tmp_path):
    for name in ("b.yaml", "a.yml", ".hidden.yaml", "notes.txt"):
        (tmp_path / name).write_text(TEXT)

    mappings = folder_mappings(tmp_path)

    assert [mapping.name for mapping in mappings] == ["a", "b"]
    assert claiming(mappings, "x.csv").name == "a"
    assert claiming(mappings, "X.CSV") is None
    assert claiming(mappings, "x.csv.gz") is None


def test_a_folder_that_is_not_there_has_no_mappings(tmp_path):
    assert folder_mappings(tmp_path / "nowhere") == []


def test_a_mapping_in_the_folder_must_say_what_it_is_for(tmp_path):
    (tmp_path / "m.yaml").write_text(TEXT.replace('files: ["*.csv"]', ""))

    with pytest.raises(UnreadableMapping):
        folder_mappings(tmp_path)


def test_the_fingerprint_tells_one_mapping_from_another():
    assert changed().fingerprint == changed().fingerprint
    assert changed().fingerprint != changed(ts="when").fingerprint


def test_the_account_comes_out_of_the_file_name():
    mapping = changed(account={"filename": r"_(?P<account>[a-z]+)\.csv"})

    assert mapping.fixed_account("2023_code.csv") == "code"
    with pytest.raises(Invalid):
        mapping.fixed_account("2023.csv")


def test_a_mapping_names_every_column_that_it_reads():
    mapping = changed(
        ets="end",
        uid=["a", "b"],
        measurements=[
            {
                "meter": "m",
                "when": {"present": ["p"], "absent": ["q"], "equals": {"r": "1"}},
                "fields": {"measure.gb": "sent"},
            }
        ],
    )

    assert mapping.columns() == ["at", "a", "b", "who", "end", "p", "q", "r", "sent"]
