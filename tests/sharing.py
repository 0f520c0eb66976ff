"""Which tests share a worker of xdist, and which of them come first.

The tests of a file share a worker, and so do all that need the server of Prefect: it takes 20
seconds to start, and what each worker starts for itself, each of them pays for. What takes longest
comes first, so that small files are left to share evenly at the end.
"""

from typing import Any, Final

import pytest
from xdist.scheduler import LoadFileScheduling

_FLOWS: Final = "tests/unit/flows"

# What takes longer than the number of its tests says, in seconds. A rough number will do: it only
# orders, and a file that is missing here comes as late as its tests are few.
SECONDS: Final = {
    _FLOWS: 200,
    "tests/e2e/test_billing_crash.py": 23,
    "tests/e2e/test_crash.py": 20,
    "tests/e2e/test_export_crash.py": 12,
    "tests/e2e/test_failpoints.py": 12,
    "tests/e2e/test_fair_turns.py": 9,
    "tests/e2e/test_lookup_crash.py": 10,
    "tests/e2e/test_many_bad_rows.py": 7,
    "tests/e2e/test_new_resource.py": 9,
    "tests/e2e/test_shared_settings.py": 7,
    "tests/e2e/test_terminated.py": 9,
    "tests/e2e/test_two_writers.py": 17,
    "tests/e2e/test_upload_crash.py": 9,
    "tests/e2e/test_world.py": 9,
    "tests/e2e/api/test_methods.py": 11,
    "tests/e2e/api/test_resources.py": 49,
    "tests/e2e/api/test_two_tenants.py": 13,
    "tests/properties/test_ingest.py": 26,
    "tests/properties/test_ingest_machine.py": 16,
    "tests/unit/cli/test_export.py": 18,
    "tests/unit/cli/test_process.py": 8,
    "tests/unit/cli/test_sample_month.py": 11,
    "tests/unit/cli/test_serve.py": 25,
    "tests/unit/pipeline/export/test_export_trouble.py": 11,
    "tests/unit/pipeline/ingest/test_inbox.py": 23,
    "tests/unit/pipeline/ingest/test_reading.py": 21,
    "tests/unit/pipeline/publish/test_publish.py": 26,
    "tests/unit/pipeline/publish/test_query.py": 25,
    "tests/unit/stores/objects/test_objects.py": 19,
    "tests/unit/test_sample_data.py": 7,
}
_SECONDS_OF_A_TEST: Final = 0.08


class ByFile(LoadFileScheduling):
    """Gives a worker all tests of a file, or of all files of flows, the longest first."""

    def _split_scope(self, nodeid: str) -> str:
        return shared(super()._split_scope(nodeid))

    def _assign_work_unit(self, node: Any) -> None:
        scope = longest({scope: len(tests) for scope, tests in self.workqueue.items()})
        self.workqueue.move_to_end(scope, last=False)
        super()._assign_work_unit(node)


def shared(file: str) -> str:
    """What shares a worker with a file: nothing but itself, except for the tests of flows."""
    return _FLOWS if file.startswith(f"{_FLOWS}/") else file


def longest(tests: dict[str, int]) -> str:
    """What takes longest, by the number of tests of each file."""
    return max(tests, key=lambda scope: max(SECONDS.get(scope, 0), _usual(tests[scope])))


def _usual(tests: int) -> float:
    return tests * _SECONDS_OF_A_TEST


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> ByFile | None:
    """Leave other ways to distribute tests to xdist."""
    return ByFile(config, log) if config.getoption("dist") == "loadfile" else None
