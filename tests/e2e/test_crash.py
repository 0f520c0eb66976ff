"""kill -9 at every step between claim and archive, and again during the recovery."""

import random
import re
import shutil
from pathlib import Path

import pytest

import meterlake
from tests.e2e.crashing import zygote
from tests.homes import HEADER, csv_row, new_home, zst

SOURCES = (
    *("pipeline/drop.py", "pipeline/ingest.py", "pipeline/commit.py", "pipeline/reporting.py"),
    "stores/lake.py",
)
GOOD = HEADER + "".join(csv_row(f"u{n}") for n in range(6))
MIXED = HEADER + "".join(
    [
        csv_row("u1"),
        csv_row("u2", 7),
        csv_row("", account="newcomer", ts="2026-08-03T10:00:00Z"),
        csv_row("v1", "NaN"),
        csv_row("v2", meter="nope"),
        "short,row\n",
        csv_row("v3"),
    ]
)


@pytest.fixture(scope="module")
def processes():
    with zygote() as parent:
        yield parent


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    """A home with three files in its inbox: one of them compressed, one mixed, one a repeat."""
    home = tmp_path_factory.mktemp("crash") / "template"
    org_id = new_home(home)
    inbox = home / "drop" / "sample" / "inbox"
    (inbox / "1.csv.zst").write_bytes(zst(GOOD.encode()))
    (inbox / "2.csv").write_text(MIXED)
    (inbox / "3 again.csv.zst").write_bytes(zst(GOOD.encode()))
    return home, org_id


@pytest.fixture(scope="module")
def undisturbed(processes, template):
    """What happens without a crash."""
    answer = processes.run([_copy(template, "undisturbed")], template[1])
    assert not answer["died"]
    return answer


def _copy(template, name: str) -> Path:
    copy = template[0].with_name(name)
    shutil.copytree(template[0], copy)
    return copy


def _broken(processes, template, undisturbed, lives: list[tuple[int, ...]]) -> list:
    """What differs after dying at some steps, one life after the other, and recovering."""
    homes = []
    for crashes in lives:
        home = _copy(template, "-".join(map(str, crashes)))
        died = [processes.run([home], template[1], step)["died"] for step in crashes]
        assert died[0]
        homes.append(home)
    states = processes.run(homes, template[1])["states"]
    for home in homes:
        shutil.rmtree(home)
    expected, names = undisturbed["states"][0], undisturbed["reached"]
    return [
        (
            names[crashes[0]],
            crashes,
            {key: (state[key], expected[key]) for key in expected if state[key] != expected[key]},
        )
        for crashes, state in zip(lives, states, strict=True)
        if state != expected
    ]


def test_the_files_meet_every_step_that_the_source_marks(undisturbed):
    package = Path(meterlake.__file__).parent
    marked = {
        name
        for source in SOURCES
        for name in re.findall(r'reached\("([^"]+)"\)', (package / source).read_text())
    }

    assert marked <= set(undisturbed["reached"])
    assert len(marked) >= 12


def test_without_a_crash_everything_is_where_it_belongs(undisturbed):
    (state,) = undisturbed["states"]

    assert state["ledger"] == [
        ["1.csv.zst", 1, "done", 6, 6, 0, 0],
        ["2.csv", 1, "done", 7, 2, 1, 4],
        ["3 again.csv.zst", 2, "done", 6, 0, 6, 0],
    ]
    assert state["inbox"] == state["claimed"] == []
    assert len(state["done"]) == 6
    assert "newcomer" in str(state["accounts"])
    assert [told["rejected"] for _, told, _ in state["events"]] == [4]


def test_after_a_crash_at_any_step_the_next_run_ends_where_it_would_have(
    processes, template, undisturbed
):
    """At the last time that each step is met: most is there by then that could be lost."""
    last = {name: step for step, name in enumerate(undisturbed["reached"])}
    lives = [(step,) for step in last.values()]

    assert _broken(processes, template, undisturbed, lives) == []


@pytest.mark.slow
def test_no_crash_at_any_step_of_any_file_changes_anything(processes, template, undisturbed):
    lives = [(step,) for step in range(len(undisturbed["reached"]))]

    assert _broken(processes, template, undisturbed, lives) == []


def _pairs(undisturbed) -> list[tuple[int, ...]]:
    steps = range(len(undisturbed["reached"]))
    return [(first, second) for first in steps for second in steps]


def test_a_second_crash_during_the_recovery_changes_nothing_either(
    processes, template, undisturbed
):
    lives = random.Random(20261001).sample(_pairs(undisturbed), 4)

    assert _broken(processes, template, undisturbed, lives) == []


@pytest.mark.slow
def test_no_two_crashes_change_anything(processes, template, undisturbed):
    pairs = _pairs(undisturbed)

    for at in range(0, len(pairs), 40):
        assert _broken(processes, template, undisturbed, pairs[at : at + 40]) == []
