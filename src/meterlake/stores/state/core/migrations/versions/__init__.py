"""The revisions, one module each; a released one never changes."""
