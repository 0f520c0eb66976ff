"""The list of faults to plant is kept with the code: each still has its place and its test."""

import re

import pytest

from tests.planted_faults import ROOT, read_faults

FAULTS = {each.name: each for each in read_faults()}


def test_each_fault_has_a_name_of_its_own():
    assert len(FAULTS) == len(read_faults())


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_planted_in_one_place_and_its_test_is_there(name):
    fault = FAULTS[name]
    text = fault.module_in(ROOT).read_text()
    assert fault.planted_in(text) != text
    path, _, test = fault.seen_by.partition("::")
    function = re.escape(test.partition("[")[0])
    assert re.search(rf"^def {function}\(|\b{function} = ", (ROOT / path).read_text(), re.MULTILINE)


def test_a_place_that_is_not_there_or_there_twice_is_refused():
    fault = next(iter(FAULTS.values()))
    for text in ("", fault.old * 2):
        with pytest.raises(ValueError, match=re.escape(fault.file)):
            fault.planted_in(text)
