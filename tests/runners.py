"""The runners of fan-outs that tests try."""

from typing import Final

import pytest

# A cluster takes seconds to start.
DASK: Final = pytest.param("dask", marks=pytest.mark.slow)
PROCESSES: Final = pytest.param("processes", marks=pytest.mark.slow)
RUNNERS: Final = ("threads", "processes", DASK)
# Where even processes take seconds.
HEAVY_RUNNERS: Final = ("threads", PROCESSES, DASK)
