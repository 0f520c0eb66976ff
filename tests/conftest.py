"""How laws are tried.

The default suite tries the same examples wherever it runs, so that what is green here is green
there; `pytest --hypothesis-profile=search` looks for new ones. Neither minds a busy machine.
"""

from hypothesis import HealthCheck, settings

_PATIENT = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}

settings.register_profile("repeatable", derandomize=True, **_PATIENT)
settings.register_profile("search", print_blob=True, **_PATIENT)
settings.load_profile("repeatable")
