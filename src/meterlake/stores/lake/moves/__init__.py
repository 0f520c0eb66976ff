"""Lakes on their way to another place: their files, the rows of their catalogs, and what is noted."""
