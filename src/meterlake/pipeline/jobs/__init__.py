"""Work that waits: jobs with files, and the turns that organizations have."""
