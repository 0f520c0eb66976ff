"""Exports: schedules, destinations, jobs, the files that they write and their manifests."""
