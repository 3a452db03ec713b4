"""The authorization matrix as a whole: what nobody may, and that nothing is left out of it."""

from pathlib import Path

import pytest
from graphql import GraphQLNonNull, OperationType

from controlplane.api.schema import schema
from tests.integration.controlplane.matrix import (
    ABSENT,
    ALLOWED,
    EMPTY,
    MEMBERS,
    PAGE,
    REGISTRARS,
    matrix,
    operations,
    page,
)
from tests.integration.controlplane.stage import ARGUMENTS

Matrix = dict[str, dict[str, str]]


@pytest.mark.xdist_group("stage")
async def test_the_matrix_is_what_the_documentation_shows(tmp_path: Path) -> None:
    """Every operation as every sort of caller; then what has to be so whatever the roles are.

    `python -m tests.integration.controlplane.matrix` writes the page anew.
    """
    found = await matrix(tmp_path)
    check_strangers(found)
    check_absences(found)
    check_order(found)
    assert PAGE.read_text() == page(found)


def check_strangers(found: Matrix) -> None:
    """Who has no role here is allowed what concerns themselves, also an admin of elsewhere."""
    for who, more in (("member", frozenset()), ("admin elsewhere", REGISTRARS)):
        allowed = {name for name, row in found.items() if row[who] == ALLOWED}
        assert allowed == MEMBERS | more, who


def check_absences(found: Matrix) -> None:
    """A caller who may read nothing learns so: programs take ABSENT for a deletion."""
    absent = {name for name, row in found.items() if row["member"] == ABSENT}
    own = {"deleteAccessToken", "approveAccess", "denyAccess", "revokeAccess", "endStream"}
    # Everybody may have views, and so nobody learns of those of others.
    assert absent == own | {"savedView", "deleteView"}


def check_order(found: Matrix) -> None:
    """More role is more right; an admin of everything may all that can be done here at all."""
    for place in ("here", "everywhere"):
        sets = [
            {name for name, row in found.items() if row[f"{role} {place}"] == ALLOWED}
            for role in ("viewer", "editor", "admin")
        ]
        assert sets[0] < sets[1] < sets[2]
    best = {name: row["admin everywhere"] for name, row in found.items()}
    refused = {name: sign for name, sign in best.items() if sign != ALLOWED}
    # There is no stream to be ended; no cluster has reported an object, nothing was rendered or
    # measured.
    unfilled = (
        *("search", "deploymentHistory", "fleetChanges", "gateMeasurements"),
        "objectRelations",
    )
    empty = dict.fromkeys(unfilled, EMPTY)
    assert refused == {"endStream": ABSENT, "serviceManifests": ABSENT, **empty}


def test_no_operation_is_left_out() -> None:
    """Each that needs arguments has some in the table, and the table has no others."""
    roots = [schema._schema.get_root_type(one) for one in OperationType]
    needing = {
        name
        for root in roots
        for name, field in (root.fields if root else {}).items()
        if any(isinstance(one.type, GraphQLNonNull) for one in field.args.values())
    }
    known = {name for _, name in operations()}
    assert needing - ARGUMENTS.keys() == set()
    assert ARGUMENTS.keys() - known == set()
