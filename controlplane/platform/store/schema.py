"""The schema that all tables belong to, and indexes that several of them have."""

from typing import Any

from sqlalchemy import BigInteger, Column, Index, Integer, MetaData

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


def substring_indexes(table: str, *columns: Column[Any]) -> list[Index]:
    """Indexes substring search: trigrams in PostgreSQL, a narrower scan in SQLite."""
    return [
        Index(
            f"ix_{table}_{column.name}_parts",
            column,
            postgresql_using="gin",
            postgresql_ops={column.name: "gin_trgm_ops"},
        )
        for column in columns
    ]


def index_json_keys(table: str, *columns: Column[Any]) -> None:
    """Indexes the content of JSON in PostgreSQL."""
    for column in columns:
        name = f"ix_{table}_{column.name}_keys"
        Index(name, column, postgresql_using="gin").ddl_if(dialect="postgresql")
