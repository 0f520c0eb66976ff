"""A process that requeues dies at every step in turn; the next one ends where it would have."""

import random
import re
import shutil
from pathlib import Path

import pytest

import meterlake
from tests.e2e.crashing import zygote
from tests.homes import HEADER, csv_row, new_home, open_home
from tests.unit.pipeline.test_rejected import correct

WORK = "tests.e2e.requeueing:requeued"
DATA = HEADER + "".join(
    [
        csv_row("", meter="later", account="newcomer"),
        csv_row("u2", "x", meter="later"),
        csv_row("u3"),
        csv_row("u3", 7),
        csv_row("u5", meter="later"),
    ]
)
# A row that is rejected again is tried once more by whoever comes next: its tries may differ.
ALIKE = ("measurements", "uids", "accounts", "mended")


@pytest.fixture(scope="module")
def processes():
    with zygote() as parent:
        yield parent


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    """A home with four rejected rows, two of which come in now."""
    home = tmp_path_factory.mktemp("crash") / "template"
    org_id = new_home(home)
    with open_home(home, org_id) as opened:
        assert opened.ingest("a.csv", DATA).rejected == 4
        correct(opened)
    return home, org_id


@pytest.fixture(scope="module")
def undisturbed(processes, template):
    """What happens without a crash."""
    home = _copy(template, "undisturbed")
    answer = processes.run([home], template[1], work=WORK)
    assert not answer["died"]
    return answer


def _copy(template, name: str) -> Path:
    return Path(shutil.copytree(template[0], template[0].with_name(name)))


def _broken(processes, template, undisturbed, lives):
    """What differs after dying at some steps, one life after the other, and requeueing again."""
    homes = []
    for crashes in lives:
        home = _copy(template, "-".join(map(str, crashes)))
        died = [processes.run([home], template[1], step, WORK)["died"] for step in crashes]
        assert died[0]
        homes.append(home)
    states = processes.run(homes, template[1], work=WORK)["states"]
    for home in homes:
        shutil.rmtree(home)
    [expected], names = undisturbed["states"], undisturbed["reached"]
    return [
        (names[crashes[0]], crashes, name, state[name])
        for crashes, state in zip(lives, states, strict=True)
        for name in ALIKE
        if state[name] != expected[name]
    ]


def test_every_step_that_the_source_marks_is_met(undisturbed):
    source = Path(meterlake.__file__).parent / "pipeline" / "rejected.py"
    marked = set(re.findall(r'reached\("([^"]+)"\)', source.read_text()))

    assert len(marked) == 3
    assert marked <= set(undisturbed["reached"])
    [state] = undisturbed["states"]
    assert len(state["measurements"]) == 3
    assert state["mended"] == [[2], [6]]


def test_after_a_crash_requeueing_again_ends_where_it_would_have(processes, template, undisturbed):
    """At the steps of requeueing itself, before and after the commit; all others are slower."""
    own = ("requeue.", "commit.", "lake.before", "lake.after")
    last = {name: step for step, name in enumerate(undisturbed["reached"])}
    lives = [(step,) for name, step in last.items() if name.startswith(own)]

    assert _broken(processes, template, undisturbed, lives) == []


@pytest.mark.slow
def test_no_crash_at_any_step_changes_anything(processes, template, undisturbed):
    lives = [(step,) for step in range(len(undisturbed["reached"]))]

    assert _broken(processes, template, undisturbed, lives) == []


@pytest.mark.slow
def test_two_crashes_change_nothing_either(processes, template, undisturbed):
    steps = range(len(undisturbed["reached"]))
    pairs = [(first, second) for first in steps for second in steps]
    lives = random.Random(20261001).sample(pairs, 30)

    assert _broken(processes, template, undisturbed, lives) == []
