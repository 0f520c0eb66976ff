"""The worker's rounds, one at a time, in the test's own process."""

from meterlake.pipeline.jobs.fair_turns import Stop
from meterlake.stores import Stores
from meterlake.worker.flow_runs import Executor
from meterlake.worker.rounds import Loop, Round


def go_round(
    which: Round, stores: Stores, stop: Stop, every: float = 0.0, executor: Executor | None = None
) -> None:
    """Run one round as the worker does until `stop` says so."""
    which.run(Loop(stores, executor or Executor(stores.settings, stop), stop), every)
