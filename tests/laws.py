"""How many examples a law is tried with, and how machines with whole homes are run."""

from typing import Final

from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

# The profile of CI: other examples in each run, by a seed that it prints.
CI: Final = "ci"
CI_EXAMPLES: Final = 50
# The profile that ends with the first failure it finds, however large.
UNSHRUNK: Final = "unshrunk"


def examples(default: int) -> int:
    """The number of examples of a law: a few everywhere, at least 50 in CI."""
    return CI_EXAMPLES if settings.get_current_profile_name() == CI else default


def run_machine(machine: type[RuleBasedStateMachine], count: int, steps: int) -> None:
    """Run a machine whose steps are work on a home.

    Args:
        machine: The machine.
        count: The number of examples.
        steps: The most steps of each.
    """
    limits = settings(
        max_examples=count,
        stateful_step_count=steps,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        # A step takes half a second: making a failure shorter would take an hour.
        phases=[Phase.explicit, Phase.reuse, Phase.generate],
    )
    run_state_machine_as_test(machine, settings=limits)
