"""Errors of databases as the control plane reports them."""

import socket
from errno import ECONNREFUSED

import pytest
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, OperationalError, ProgrammingError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from controlplane.platform.ports import TransactionConflict
from controlplane.platform.store.connection import translate_errors
from core.errors import Invalid, TowlineError, Unavailable


class DriverError(Exception):
    """An error of a database driver, with PostgreSQL's code."""

    def __init__(self, text: str, sqlstate: str | None = None) -> None:
        super().__init__(text)
        self.sqlstate = sqlstate


def reported(error: Exception, action: str = "written") -> TowlineError:
    with pytest.raises(TowlineError) as raised, translate_errors(action):
        raise error
    assert raised.value.__cause__ is error
    return raised.value


@pytest.mark.parametrize("code", ["40001", "40P01"])
def test_a_transaction_that_lost_a_collision_can_be_tried_again(code: str) -> None:
    error = reported(DBAPIError("UPDATE", {}, DriverError("deadlock detected", code)))
    assert isinstance(error, TransactionConflict)
    assert error.retry_after == 1
    assert "another transaction changed the same rows" in error.message


def test_a_value_that_the_database_refuses_is_invalid() -> None:
    error = reported(DBAPIError("INSERT", {}, DriverError("value too long", "22001")))
    assert isinstance(error, Invalid)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("database or disk is full", "the store cannot be written: database or disk is full"),
        (
            "database disk image is malformed",
            "the store cannot be written: database disk image is malformed: restore a backup",
        ),
        (
            "file is not a database",
            "the store cannot be written: file is not a database: restore a backup",
        ),
    ],
)
def test_a_broken_database_is_an_outage(text: str, message: str) -> None:
    error = reported(OperationalError("INSERT", {}, DriverError(text)))
    assert (type(error), error.message) == (Unavailable, message)


@pytest.mark.parametrize("kind", [IntegrityError, ProgrammingError, DataError])
def test_errors_of_our_own_statements_stay_as_they_are(kind: type[DBAPIError]) -> None:
    error = kind("INSERT", {}, DriverError("syntax error", "42601"))
    with pytest.raises(kind) as raised, translate_errors("written"):
        raise error
    assert raised.value is error


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ConnectionRefusedError(ECONNREFUSED, "[Errno 111] …"), "Connection refused"),
        (socket.gaierror(socket.EAI_NONAME, "unknown host"), "[Errno -2] unknown host"),
        (OSError("connection lost"), "connection lost"),
        (PoolTimeout("no connection is free"), "no connection is free"),
    ],
)
def test_an_unreachable_database_is_an_outage_with_a_hint_at_the_start(
    error: Exception, reason: str
) -> None:
    assert reported(error, "read").message == f"the store cannot be read: {reason}"
    opening = reported(error, "opened").message
    assert opening.startswith(f"the store cannot be opened: {reason}: check the setting database")
