"""`towline services sync --resource`: syncs only some objects of a service."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import typer

from core.errors import Invalid
from towline.cli.services import generated as operations
from towline.cli.services.find import find_service, label
from towline.cli.services.generated import LedgerEvent, ServiceDetails
from towline.cli.services.object_names import attributes_of, find_object, parse_name
from towline.cli.shell.formats import Format
from towline.cli.shell.output import Column, field, say, show
from towline.cli.shell.polling import WaitTimeout, poll_until
from towline.operations import GraphQLApi

if TYPE_CHECKING:
    from towline.generated_inputs import ObjectAttributes

STAGE = "objects-synced"
"""Stage of the result in the ledger."""
ANSWER_WITHIN_S = 60.0
_RESULT: tuple[Column[LedgerEvent], ...] = (
    field("AT"),
    Column("RESULT", lambda row: str(row["detail"]["result"])),
    field("MESSAGE"),
)

Poll = Callable[..., LedgerEvent | None]


def sync_resources(
    api: GraphQLApi,
    name: str,
    resources: Sequence[str],
    *,
    prune: bool,
    output: Format,
    poll: Poll = poll_until,
) -> None:
    """Has the agent sync the named objects, and shows its result.

    Ends with exit code 1 if it failed or was refused. Invalid: a malformed or ambiguous name.
    """
    service = find_service(api, name)
    objects = [_attributes(service, resource) for resource in resources]
    earlier_ids = {entry["id"] for entry in _results(api, service)}
    operations.sync_service_objects(api, service["id"], objects, prune)

    def newest() -> LedgerEvent | None:
        return next(
            (entry for entry in _results(api, service) if entry["id"] not in earlier_ids), None
        )

    try:
        result = poll(newest, lambda entry: entry is not None, ANSWER_WITHIN_S)
    except WaitTimeout:
        say(f"the agent has not answered yet; see: towline services history {label(service)}")
        raise typer.Exit(1) from None
    assert result is not None
    show(result, _RESULT, output, "id")
    if result["detail"]["result"] != "succeeded":
        raise typer.Exit(1)


def one_service(names: Sequence[str] | None) -> str:
    """Returns the only service. Raises Invalid for none or several: objects belong to one."""
    if names is None or len(names) != 1:
        raise Invalid("--resource needs exactly one service, by CLUSTER/NAME")
    return names[0]


def _results(api: GraphQLApi, service: ServiceDetails) -> list[LedgerEvent]:
    entries = operations.ledger(api, service_id=service["id"], first=100)
    return [entry for entry in entries if entry["stage"] == STAGE]


def _attributes(service: ServiceDetails, text: str) -> "ObjectAttributes":
    """Attributes of a reported object, else of one that is not in the cluster yet."""
    object_name = find_object(service["components"] or [], text)
    if object_name is not None:
        return attributes_of(object_name)
    kind, namespace, name = parse_name(text)
    kind, _, group = kind.partition(".")
    return {"kind": kind, "group": group, "namespace": namespace or "", "name": name}
