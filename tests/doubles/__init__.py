"""Stand-ins for the world outside, and small homes: what tests run against."""
