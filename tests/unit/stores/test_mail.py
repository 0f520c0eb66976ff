import stat
from datetime import UTC, datetime
from email import message_from_bytes
from email.policy import default

import pytest

from meterlake.model.errors import Unavailable
from meterlake.stores.mail import Outbox

NOW = datetime(2026, 10, 1, tzinfo=UTC)


def test_a_letter_lies_whole_in_the_outbox_for_its_owner(tmp_path):
    link = "https://meter.example/oauth/password?token=" + "x" * 200
    path = Outbox(tmp_path).put("ada@example.com", "Grüße", f"Hällo\n\n{link}\n", NOW)
    letter = message_from_bytes(path.read_bytes(), policy=default)

    assert (letter["To"], letter["Subject"]) == ("ada@example.com", "Grüße")
    assert link in letter.get_content()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [each.suffix for each in (tmp_path / "outbox").iterdir()] == [".eml"]


def test_a_line_break_makes_no_second_header(tmp_path):
    with pytest.raises(ValueError, match="linefeed"):
        Outbox(tmp_path).put("ada@example.com\nBcc: eve@example.com", "x", "y", NOW)


def test_an_outbox_that_cannot_be_written_is_unavailable(tmp_path):
    (tmp_path / "outbox").write_text("a file")

    with pytest.raises(Unavailable):
        Outbox(tmp_path).put("ada@example.com", "x", "y", NOW)
