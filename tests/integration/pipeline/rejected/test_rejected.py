"""Rejected rows: found, edited, given in again; never counted twice, never lost."""

import csv
import io
import json
import threading
from datetime import timedelta
from pathlib import Path

import pytest

from meterlake.model.errors import Invalid, NotFound
from meterlake.model.measurements.mapping import parse_mapping
from meterlake.model.values import failpoint
from meterlake.pipeline.ingest.rejected_rows import every_rejected, list_rejected, show_rejected
from meterlake.pipeline.rejected.rejected_files import Edit, read_edits, write_rejected
from meterlake.pipeline.rejected.requeue import requeue, requeue_edited
from meterlake.stores.lake.rejected import RejectedFilter
from tests.homes import HEADER, a_home, configure, csv_row, ndjson, open_home, wire_row

LATER = {
    "code": "later",
    "name": "Later",
    "dataFields": [
        {"category": "MEASURE", "code": "gb", "name": "Sent"},
        {"category": "WHERE", "code": "region", "name": "Region"},
    ],
    "derivedFields": [],
}


@pytest.fixture
def home(tmp_path):
    with a_home(tmp_path) as found:
        yield found


def open_rows(home, **filters):
    return list_rejected(home.organization, RejectedFilter(**filters), 100)


def ids(home, **filters) -> list[str]:
    return [str(row.place) for row in open_rows(home, **filters)]


def give_in(home, **filters):
    return requeue(home.organization, RejectedFilter(**filters))


def edit(home, *edits):
    lines = [Edit(id_, json.dumps(members), "here") for id_, members in edits]
    return requeue_edited(home.organization, lines)


def links(home):
    return home.query(
        "SELECT row, part, attempt, tries, edited, new_row FROM lake.requeue ORDER BY ALL"
    )


def check(home):
    home.check()
    assert (
        home.query(
            "SELECT count(*), count(DISTINCT (identity, row, part, tries)) FROM lake.requeue"
            " HAVING count(*) <> count(DISTINCT (identity, row, part, tries))"
        )
        == []
    )


def correct(home):
    configure(home.organization, meters=[LATER])


# -- what must not happen --------------------------------------------------------------------


def test_what_is_no_id_is_refused(home):
    for id_ in ("", "x", "abc:1", "ABCDEF012345:1", "abcdef012345", "abcdef:1.x"):
        with pytest.raises(Invalid):
            show_rejected(home.organization, id_)
        with pytest.raises(Invalid):
            edit(home, (id_, wire_row("u")))


@pytest.mark.long
def test_a_row_that_was_never_rejected_is_not_found(home):
    receipt = home.ingest("a.csv", HEADER + csv_row("good"))
    for id_ in ("0" * 12 + ":2", f"{receipt.identity[:12]}:2"):
        with pytest.raises(NotFound):
            show_rejected(home.organization, id_)
        with pytest.raises((NotFound, Invalid)):
            edit(home, (id_, wire_row("other")))
    assert home.ledger()[0][4] == 1
    assert links(home) == []


@pytest.mark.long
def test_one_broken_edit_keeps_all_of_them_out(home):
    home.ingest("a.csv", HEADER + csv_row("u1", "x") + csv_row("u2", "x"))
    one, two = ids(home)
    for wrong in (
        [(one, wire_row("u1")), (one, wire_row("u1"))],
        [(one, wire_row("u1")), (two, wire_row("another"))],
        [(one, wire_row("u1")), (one[:-1] + "99", wire_row("u2"))],
    ):
        with pytest.raises(Invalid):
            edit(home, *wrong)
    assert links(home) == []
    assert home.measurements() == []


@pytest.mark.long
def test_a_uid_is_not_edited_where_it_was_not_at_fault(home):
    """Delivered again it would come in under its own one, and be counted twice."""
    home.ingest("a.csv", HEADER + csv_row("", meter="later"))
    [id_] = ids(home)
    with pytest.raises(Invalid, match="only a uid that was at fault"):
        edit(home, (id_, wire_row("mine")))


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        '{"id": 5, "measurement": {}}',
        '{"id": "0123456789ab:1", "measurement": []}',
        '{"id": "a", "id": "b"}',
        '{"id": "0123456789ab:1", "measurement": {"uid": "' + "x" * 70_000 + '"}}',
        '{"id": "0123456789ab:1", "measurement": {"uid": "\\ud800"}}',
    ],
)
def test_broken_lines_of_edited_files_are_refused(tmp_path, text):
    path = tmp_path / "edits.ndjson"
    path.write_text(text)
    with pytest.raises(Invalid, match=r"edits.ndjson, line 1"):
        list(read_edits(path))


@pytest.mark.parametrize(
    "text", ["id,meter\na\n", "id,meter\na,b,c\n", 'id,meter\na,"b\n', "meter\nx\n"]
)
def test_broken_csv_files_are_refused(tmp_path, text):
    path = tmp_path / "edits.csv"
    path.write_text(text)
    with pytest.raises(Invalid):
        list(read_edits(path))


def test_files_that_are_none_are_refused(tmp_path):
    (tmp_path / "latin.csv").write_bytes(b"id\n\xff\n")
    for name, error in (("a.txt", Invalid), ("gone.csv", NotFound), ("latin.csv", Invalid)):
        with pytest.raises(error):
            list(read_edits(tmp_path / name))
    with pytest.raises(Invalid):
        write_rejected(tmp_path / "a.xlsx", list)


@pytest.mark.long
def test_malformed_rows_wait_for_somebody_to_edit_them(home):
    home.ingest("a.csv", HEADER + "short,row\n")
    home.ingest("b.ndjson", b'{"meter":\n{"meter":"egress","meter":"egress"}\n')
    found = give_in(home)
    assert sorted(map(str, found.unreadable)) == sorted(ids(home))
    assert len(found.unreadable) == 3
    assert found.receipts == []
    check(home)


@pytest.mark.long
def test_requeueing_without_a_correction_leaves_the_row_open_under_its_id(home):
    home.ingest("a.csv", HEADER + csv_row("u1", meter="later"))
    before = ids(home)
    for times in (1, 2):
        found = give_in(home).to_wire()
        assert (found["received"], found["rejected"]) == (1, 1)
        assert ids(home) == before
        assert open_rows(home)[0].tries == times
    check(home)


# -- what happens ----------------------------------------------------------------------------


@pytest.mark.long
def test_rows_come_in_after_the_configuration_was_corrected_and_only_once(home):
    data = HEADER + csv_row("", meter="later") + csv_row("u2", meter="later") + csv_row("u3")
    home.ingest("a.csv", data)
    correct(home)
    found = give_in(home).to_wire()
    assert (found["received"], found["accepted"]) == (2, 2)
    assert ids(home) == []
    assert give_in(home).receipts == []
    again = home.ingest("again.csv", data)
    assert (again.accepted, again.repeats, again.rejected) == (0, 3, 0)
    uids = {row[0] for row in home.uids()}
    identity = home.query("SELECT identity FROM lake.source WHERE name = 'a.csv'")[0][0]
    assert uids == {f"{identity[:32]}-2", "u2", "u3"}
    check(home)


@pytest.mark.long
def test_the_origin_delivered_first_leaves_nothing_to_requeue(home):
    data = HEADER + csv_row("", meter="later")
    home.ingest("a.csv", data)
    [id_] = ids(home)
    correct(home)
    assert home.ingest("again.csv", data).accepted == 1
    assert give_in(home).receipts == []
    found = edit(home, (id_, wire_row(None, 7, meter="later")))
    assert (found.receipts, found.settled) == ([], 1)
    assert show_rejected(home.organization, id_)["status"] == "delivered again"
    check(home)


def test_an_edited_row_stays_counted_once_when_its_origin_is_delivered_again(home):
    data = HEADER + csv_row("u1", "x", meter="later") + csv_row("")
    home.ingest("a.csv", data)
    [id_] = ids(home)
    edited = edit(home, (id_, wire_row("u1", 9)))
    assert edited.to_wire()["accepted"] == 1
    correct(home)
    again = home.ingest("again.csv", data)
    assert (again.accepted, again.repeats, again.rejected) == (0, 2, 0)
    assert edit(home, (id_, wire_row("u1", 9))).settled == 1
    assert links(home) == [(2, 0, 1, 1, True, 1)]
    check(home)


@pytest.mark.long
def test_a_uid_at_fault_can_be_edited_and_is_not_counted_again(home):
    data = HEADER + csv_row("u1") + csv_row("u1", 7) + csv_row("x" * 51)
    home.ingest("a.csv", data)
    duplicate, invalid = ids(home)
    assert open_rows(home)[0].measurement is not None
    found = edit(home, (duplicate, wire_row("u2", 7)), (invalid, wire_row("u3")))
    assert found.to_wire()["accepted"] == 2
    assert home.ingest("again.csv", data).repeats == 3
    check(home)


@pytest.mark.long
def test_a_row_that_was_rejected_again_keeps_its_edit(home):
    home.ingest("a.csv", HEADER + csv_row("u1", "x"))
    [id_] = ids(home)
    edit(home, (id_, wire_row("u1", 5, meter="later")))
    [row] = open_rows(home)
    assert (str(row.place), row.reason, row.tries) == (id_, "UndefinedMeter", 1)
    correct(home)
    assert give_in(home).to_wire()["accepted"] == 1
    shown = show_rejected(home.organization, id_)
    assert shown["status"] == "requeued"
    assert [each["reason"] for each in shown["history"]] == [
        "InvalidNumber",
        "UndefinedMeter",
        None,
    ]
    assert [(each[3], each[4]) for each in links(home)] == [(1, True), (2, False)]
    check(home)


@pytest.mark.long
@pytest.mark.parametrize("suffix", ["ndjson", "csv"])
def test_an_exported_file_can_be_edited_and_given_back(home, tmp_path, suffix):
    home.ingest("a.csv", HEADER + csv_row("u1", "1_5") + csv_row("", "NaN"))
    home.ingest("b.ndjson", ndjson([wire_row("u4", what={"colour": "red"}), wire_row("u5", "x")]))
    path = tmp_path / f"mend.{suffix}"
    assert write_rejected(path, lambda: every_rejected(home.organization, RejectedFilter())) == 4
    if suffix == "csv":
        rows = list(csv.DictReader(io.StringIO(path.read_text())))
        for row in rows:
            row["measure.gb"] = {"1_5": "1.5", "NaN": "2", "x": "3"}.get(
                row["measure.gb"], row["measure.gb"]
            )
            row["what.colour"] = ""
        out = io.StringIO()
        writer = csv.DictWriter(out, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
        text = out.getvalue()
    else:
        text = path.read_text().replace('"gb":"1_5"', '"gb":1.5').replace('"gb":"NaN"', '"gb":2')
        text = text.replace('"gb":"x"', '"gb":3').replace(',"what":{"colour":"red"}', "")
    path.write_text(text)
    found = requeue_edited(home.organization, read_edits(path)).to_wire()
    assert (found["accepted"], found["rejected"]) == (4, 0)
    values = sorted(float(dict(row[1])["measure.gb"]) for row in home.measurements())
    assert values == [1.5, 1.5, 2, 3]
    check(home)


@pytest.mark.long
def test_rows_of_parquet_and_of_mappings_come_back_as_the_mapping_read_them(home):
    mapping = parse_mapping(
        {
            "account": {"filename": r"(?P<account>\w+)\.csv"},
            "ts": "at",
            "nulls": ["-"],
            "measurements": [
                {
                    "meter": "later",
                    "fields": {"measure.gb": "a"},
                    "constants": {"where.region": "eu"},
                },
                {"meter": "egress", "fields": {"measure.gb": "b", "where.region": "c"}},
            ],
        },
        "m",
    )
    data = 'at,a,b,c\n2026-09-03T10:00:00Z,1,-,"x\ny"\n'
    home.ingest("acme.csv", data, mapping)
    first, second = open_rows(home)
    assert (first.reason, second.reason) == ("UndefinedMeter", "MissingField")
    assert str(second.place).endswith(":2.1")
    correct(home)
    edited = json.loads(second.measurement) | {"measure": {"gb": 4}}
    assert edited["where"] == {"region": "x\ny"}
    assert give_in(home, meter="later").to_wire()["accepted"] == 1
    assert edit(home, (str(second.place), edited)).to_wire()["accepted"] == 1
    assert home.ingest("acme.csv", data, mapping).repeats == 2
    assert [row[0][-2:] for row in home.uids()] == ["-2", ".1"]
    check(home)


@pytest.mark.long
def test_rows_of_the_second_of_two_nearly_equal_new_accounts_can_be_mended(home):
    home.ingest("a.csv", HEADER + csv_row("u1", account="New") + csv_row("u2", account="new"))
    [row] = open_rows(home, reason="InvalidAccountCode")
    assert row.original.startswith("egress,new,u2")
    found = edit(home, (str(row.place), json.loads(row.measurement) | {"account": "New"}))
    assert found.to_wire()["accepted"] == 1
    check(home)


@pytest.mark.long
def test_filters_and_pages(home):
    home.ingest("a.csv", HEADER + csv_row("u1", "x") + csv_row("u2", meter="nope"), delivery="job")
    home.ingest("b.csv", HEADER + csv_row("u3", "y"))
    assert len(ids(home)) == 3
    assert len(ids(home, reason="InvalidNumber")) == 2
    assert len(ids(home, delivery="job")) == 2
    assert len(ids(home, source="b.csv")) == 1
    assert len(ids(home, meter="nope")) == 1
    assert len(ids(home, uid="u3")) == 1
    assert len(ids(home, status="requeued")) == 0
    now = home.clock() + timedelta(hours=1)
    assert (len(ids(home, since=now)), len(ids(home, until=now))) == (0, 3)
    everything = ids(home)
    page = list_rejected(home.organization, RejectedFilter(), 2)
    rest = list_rejected(home.organization, RejectedFilter(), 2, str(page[-1].place))
    assert [str(row.place) for row in [*page, *rest]] == everything


@pytest.mark.long
def test_two_at_once_bring_every_row_in_once(home):
    rows = "".join(csv_row("", str(n), meter="later") for n in range(30))
    home.ingest("a.csv", HEADER + rows)
    correct(home)
    path, org_id = home.stores.home, home.org_id
    accepted: list[int] = []

    def work() -> None:
        with open_home(path, org_id) as other:
            accepted.append(
                requeue(other.stores.organization(org_id), RejectedFilter()).to_wire()["accepted"]
            )

    threads = [threading.Thread(target=work) for _ in range(2)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert sum(accepted) == 30
    assert len(links(home)) == 30
    check(home)


def test_an_origin_that_is_delivered_again_meanwhile_wins_or_loses_but_never_both(
    home, monkeypatch
):
    data = HEADER + csv_row("", meter="later") + csv_row("u2", "x", meter="later")
    home.ingest("a.csv", data)
    correct(home)
    steps: list[str] = []

    def hook(name: str) -> None:
        steps.append(name)
        if name == "requeue.written" and steps.count(name) == 1:
            assert home.ingest("again.csv", data).accepted == 1

    monkeypatch.setattr(failpoint, "hook", hook)
    found = give_in(home).to_wire()
    assert steps.count("requeue.written") == 2
    assert (found["accepted"], found["rejected"], found["settled"]) == (0, 1, 1)
    check(home)


@pytest.mark.long
def test_the_requeued_source_is_kept(home):
    home.ingest("a.csv", HEADER + csv_row("u1", meter="later"))
    correct(home)
    give_in(home)
    lake = Path(home.organization.lake_folder)
    assert [path.name for path in (lake / "requeue").iterdir()] == ["requeue.lock"]
    [kept] = (lake / "sources").rglob("requeue-*.ndjson")
    assert json.loads(kept.read_text())["uid"] == "u1"


@pytest.mark.long
def test_numbers_keep_every_digit_on_the_way(home):
    number = "12345678901234567890.123456789012"
    line = json.dumps(wire_row("u1", meter="later")).replace("1.5", number)
    home.ingest("a.ndjson", line.encode() + b"\n")
    correct(home)
    give_in(home)
    assert number in str(home.measurements())
