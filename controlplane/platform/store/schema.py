"""The schema that all tables belong to, and indexes that several of them have."""

from typing import Any

from sqlalchemy import BigInteger, Column, Index, Integer, MetaData

ASCII_LETTERS = "C"
"""Collation of PostgreSQL that knows the case of ASCII letters only, and compares in half the time.
"""
metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
        "pk": "pk_%(table_name)s",
    }
)


# SQLite numbers rows by itself only in a column declared INTEGER.
SerialNumber = BigInteger().with_variant(Integer, "sqlite")


def index_substrings(table: str, *columns: Column[Any]) -> None:
    """Indexes rows by parts of the last column, and the whole other ones, in PostgreSQL."""
    *whole, column = columns
    Index(
        f"ix_{table}_{'_'.join(column.name for column in columns)}_parts",
        *whole,
        column.collate(ASCII_LETTERS).label("text"),
        postgresql_using="gin",
        postgresql_ops={"text": "gin_trgm_ops"},
    ).ddl_if(dialect="postgresql")


def index_json_keys(table: str, *columns: Column[Any]) -> None:
    """Indexes the content of JSON in PostgreSQL."""
    for column in columns:
        name = f"ix_{table}_{column.name}_keys"
        Index(name, column, postgresql_using="gin").ddl_if(dialect="postgresql")
