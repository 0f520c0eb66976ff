"""Files, uploads, inboxes and segments into the lake, exactly once."""
