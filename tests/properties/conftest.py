"""Laws are tried without a deadline: a busy machine breaks none of them."""

from hypothesis import settings

settings.register_profile("laws", deadline=None)
settings.load_profile("laws")
