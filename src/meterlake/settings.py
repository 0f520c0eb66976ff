"""Everything that differs between machines, from METERLAKE_* variables or a .env file."""

from pathlib import Path

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict


class Settings(BaseSettings):
    """Settings of one meterlake home. Only entry points (cli, api, flows) create them."""

    model_config = SettingsConfigDict(
        env_prefix="METERLAKE_", env_file=".env", extra="ignore", frozen=True
    )

    home: Path = Field(Path("meterlake-home"), description="The folder that holds everything.")
    state: str | None = Field(
        None,
        description="State database: a postgresql:// URL; SQLite in the home folder when absent.",
    )
    duckdb_memory: str = Field(
        "700MB", pattern=r"^\d+(MB|GB)$", description="Memory that one DuckDB connection may use."
    )
    threads: int = Field(2, ge=1, le=256, description="Threads that decode files and run queries.")
    block_bytes: int = Field(
        8 << 20, ge=1 << 10, le=1 << 28, description="Bytes of a file that are decoded at once."
    )
    line_bytes: int = Field(
        1 << 20, ge=1 << 10, le=1 << 24, description="Longest line or record that is accepted."
    )
    source_bytes: int = Field(
        64 << 30, ge=1 << 10, description="The most that one file may hold, decompressed."
    )
    settle_seconds: int = Field(
        2, ge=0, le=3600, description="A dropped file is taken when it has rested this long."
    )
    s3_endpoint: str | None = Field(
        None, description="URL of an S3-compatible store; AWS when absent."
    )
    gcs_endpoint: str | None = Field(
        None, description="URL of a GCS-compatible store; Google when absent."
    )
