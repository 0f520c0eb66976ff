"""Properties are tried without a deadline: a busy machine breaks none of them."""

from hypothesis import settings

settings.register_profile("stages", deadline=None)
settings.load_profile("stages")
