"""Days and times as people read them: words as the pages have them, digits as the person does.

The pages are English, and so are the names of months and days on them. In which order a day, its
month and its year stand, and what is between them, follows the person's language: `15.11.2026` in
German, `15 Nov 2026` in French.
"""

from datetime import date, datetime
from typing import Final

from babel import Locale
from babel.dates import format_date, format_datetime

_WORDS: Final = Locale("en")


def day_text(day: date, locale: Locale) -> str:
    """A day: `Nov 15, 2026`."""
    return in_words(day, locale.date_formats["medium"].pattern)


def instant_text(local: datetime, locale: Locale) -> str:
    """An instant by the clocks of its zone: `Nov 15, 2026, 9:04:05 PM`."""
    parts = (locale.time_formats["medium"].pattern, locale.date_formats["medium"].pattern)
    return in_words(local, str(locale.datetime_formats["medium"]).format(*parts))


def in_words(at: date | datetime, pattern: str) -> str:
    """What a pattern has of a day or an instant, such as `LLLL y` its month."""
    if isinstance(at, datetime):
        return str(format_datetime(at, pattern, at.tzinfo, _WORDS))
    return str(format_date(at, pattern, _WORDS))
