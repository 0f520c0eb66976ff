"""Uploads, inboxes and backfills in State."""
