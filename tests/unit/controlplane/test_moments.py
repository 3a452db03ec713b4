"""Moments as drivers take them: what the columns of SQLAlchemy would write."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy.dialects import sqlite
from sqlalchemy.dialects.postgresql import asyncpg
from sqlalchemy.engine import Dialect

from controlplane.storage.blocks import moment_writer
from controlplane.storage.columns import UtcColumn

ZONES = st.integers(-12, 14).map(lambda hours: timezone(timedelta(hours=hours)))
MOMENTS = st.datetimes(datetime(1971, 1, 1), datetime(2999, 1, 1), timezones=ZONES | st.just(UTC))


@pytest.mark.parametrize("dialect", [sqlite.dialect(), asyncpg.dialect()], ids=lambda d: d.name)
@given(at=MOMENTS)
def test_rows_written_many_at_once_hold_the_same_moments(dialect: Dialect, at: datetime) -> None:
    """Whether a column's type wrote them or not."""
    by_column = UtcColumn().dialect_impl(dialect).bind_processor(dialect)
    assert by_column is not None
    assert moment_writer(dialect.name)(at) == by_column(at)
