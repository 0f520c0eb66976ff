"""Where lakes lie: their catalogs in SQLite or PostgreSQL, their files in a folder or a bucket."""
