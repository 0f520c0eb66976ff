"""The usage report: what its page says, from figures that were added up before."""
