"""One row per resource of the SDK: the least that a request has to say, and all that it may say."""

from tests.e2e.api import bodies_beside, bodies_of_plans

ROWS = (*bodies_of_plans.ROWS, *bodies_beside.ROWS)
BY_API = {str(row): row for row in ROWS}
