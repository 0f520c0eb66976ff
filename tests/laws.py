"""How many examples a law is tried with."""

from typing import Final

from hypothesis import settings

# The profile of CI: other examples in each run, by a seed that it prints.
CI: Final = "ci"
CI_EXAMPLES: Final = 50


def examples(default: int) -> int:
    """The number of examples of a law: a few everywhere, at least 50 in CI."""
    return CI_EXAMPLES if settings.get_current_profile_name() == CI else default
