"""The schema that all tables belong to, and columns that many of them have."""

from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, Column, Index, Integer, MetaData, String

from controlplane.platform.store.columns import UtcColumn

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


def id_column() -> Column[str]:
    return Column("id", String(36), primary_key=True)


def time_columns() -> tuple[Column[datetime], Column[datetime]]:
    return Column("inserted_at", UtcColumn, nullable=False), Column(
        "updated_at", UtcColumn, nullable=False
    )


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


def project_column() -> Column[str]:
    return Column("project_id", String(36), nullable=False, index=True)


def optional_project_column() -> Column[str | None]:
    """The project of a row that can also belong to the whole installation: NULL."""
    return Column("project_id", String(36), index=True)


def named_columns() -> tuple[Column[Any], ...]:
    """The columns of a `NamedRow`."""
    name = Column("name", String(255), nullable=False, unique=True)
    return id_column(), name, *time_columns()
