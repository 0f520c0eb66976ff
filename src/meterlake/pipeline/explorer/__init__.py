"""Questions about usage and bills, answered row by row or as files."""
