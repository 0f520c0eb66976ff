"""Bytes to rows: CSV, JSON and Parquet, cut into blocks of whole records."""
