"""Each test runs in a home of each kind."""

from tests.every_lake import every_lake

__all__ = ["every_lake"]
