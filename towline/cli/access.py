"""`towline access …`: role bindings, permission checks, temporary access and sessions."""

from datetime import timedelta
from typing import Annotated, Any

import typer

from core.runtime.clock import SystemClock
from towline.cli import documents
from towline.cli.output import Column, Format, field, say, show, since
from towline.cli.resource_names import EVERYWHERE, kind_and_id, scope_of
from towline.cli.session import Json, Output, connect

app = typer.Typer(
    no_args_is_help=True, help="Role bindings, permission checks and temporary access."
)

Place = Annotated[
    str, typer.Argument(help=f"{EVERYWHERE}, project/NAME, cluster/HANDLE or service/CLUSTER/NAME.")
]
Id = Annotated[str, typer.Argument(metavar="ID", help="Id, as `list` or `requests` shows it.")]


def _subject(row: Any) -> str:
    return row["user"]["email"] if row["user"] else f"group {row['group']['name']}"


COLUMNS = (
    Column("SUBJECT", _subject),
    field("ROLE", "role", "name"),
    field("SCOPE", "place"),
    field("EXPIRES", "expiresAt"),
    field("GRANTED BY", "givenBy"),
    field("ID"),
)
_REQUESTS = (
    field("USER", "user", "email"),
    field("ROLE", "role", "name"),
    field("SCOPE", "place"),
    field("MINUTES"),
    field("STATE"),
    since("REQUESTED", "insertedAt"),
    field("REASON"),
    field("ID"),
)
_HOLDERS = (
    field("USER", "user", "email"),
    Column("REASON", lambda row: "; ".join(f"{r['role']} {r['why']}" for r in row["reasons"])),
)


@app.command("list")
def list_bindings(
    context: typer.Context,
    place: Annotated[str | None, typer.Argument(help="Only bindings in this scope.")] = None,
    output: Output = Format.TABLE,
) -> None:
    """List role bindings.

    \b
    Example:
      towline access list
      towline access list project/shop
    """
    api = connect(context)
    scope = scope_of(api, place) if place else None
    show(api.ask(documents.BINDINGS, scope=scope)["roleBindings"], COLUMNS, output, "id")


@app.command("grant")
def grant(
    context: typer.Context,
    role: Annotated[str, typer.Argument(help="Name of the role.")],
    place: Place,
    user: Annotated[str | None, typer.Option(help="Email address of the user.")] = None,
    group: Annotated[str | None, typer.Option(help="Name of the group.")] = None,
    hours: Annotated[
        int | None, typer.Option(min=1, help="Expire after this many hours (default: never).")
    ] = None,
    reason: Annotated[str | None, typer.Option(help="Reason, for the audit log.")] = None,
    output: Output = Format.TABLE,
) -> None:
    """Bind a role to a user or a group. You can only grant permissions that you hold.

    \b
    Example:
      towline access grant editor project/shop --group shop-team
      towline access grant admin cluster/dev --user ada@example.org --hours 8
    """
    api = connect(context)
    attributes: Json = {"role": role, "scope": scope_of(api, place), "user": user, "group": group}
    attributes["reason"] = reason
    if hours is not None:
        end = SystemClock().now() + timedelta(hours=hours)
        attributes["expiresAt"] = end.isoformat()
    made = api.ask(documents.CREATE_BINDING, attributes=attributes)["createRoleBinding"]
    show(made, COLUMNS, output, "id")


@app.command("remove")
def remove_binding(context: typer.Context, binding: Id, output: Output = Format.TABLE) -> None:
    """Delete a role binding; sessions that depend on it end within seconds.

    \b
    Example:
      towline access remove 01890a5d-ac96-774b-bcce-b302099a8057
    """
    gone = connect(context).ask(documents.DELETE_BINDING, id=binding)["deleteRoleBinding"]
    show(gone, COLUMNS, output, "id")


@app.command("can")
def can(
    context: typer.Context,
    verb: Annotated[str, typer.Argument(help="read, write, approve, connect or administer.")],
    resource: Annotated[
        str, typer.Argument(help="Resource, such as cluster/dev; a kind alone means all of it.")
    ],
) -> None:
    """Check whether you have a permission; exit code 4 if not.

    \b
    Example:
      towline access can write cluster/dev
      towline access can administer user
    """
    api = connect(context)
    kind, id = kind_and_id(api, resource)
    allowed = api.ask(documents.CAN, verb=verb.upper(), kind=kind, id=id)["can"]
    print("yes" if allowed else "no")
    if not allowed:
        raise typer.Exit(4)


@app.command("who-can")
def who_can(
    context: typer.Context,
    verb: Annotated[str, typer.Argument(help="read, write, approve, connect or administer.")],
    resource: Annotated[
        str, typer.Argument(help="Resource, such as cluster/dev; a kind alone means all of it.")
    ],
    output: Output = Format.TABLE,
) -> None:
    """List the users who have a permission, and which binding grants it.

    \b
    Example:
      towline access who-can connect cluster/prod
    """
    api = connect(context)
    kind, id = kind_and_id(api, resource)
    found = api.ask(documents.WHO_CAN, verb=verb.upper(), kind=kind, id=id)["whoCan"]
    show(
        [{**holder, "email": holder["user"]["email"]} for holder in found],
        _HOLDERS,
        output,
        "email",
    )


@app.command("request")
def request(
    context: typer.Context,
    role: Annotated[str, typer.Argument(help="Name of the role.")],
    place: Place,
    reason: Annotated[str, typer.Option(help="Reason, shown to the approver.")],
    minutes: Annotated[int, typer.Option(min=1, max=10080, help="Duration in minutes.")] = 60,
    output: Output = Format.TABLE,
) -> None:
    """Request a role for a limited time; another user must approve it.

    \b
    Example:
      towline access request admin cluster/prod --minutes 30 --reason "release 42 is stuck"
    """
    api = connect(context)
    asked = {"role": role, "scope": scope_of(api, place), "minutes": minutes, "reason": reason}
    made = api.ask(documents.REQUEST_ACCESS, **asked)["requestAccess"]
    show(made, _REQUESTS, output, "id")


@app.command("requests")
def list_requests(context: typer.Context, output: Output = Format.TABLE) -> None:
    """List your requests, and requests that you can approve.

    \b
    Example:
      towline access requests
    """
    show(connect(context).ask(documents.ACCESS_REQUESTS)["accessRequests"], _REQUESTS, output, "id")


@app.command("approve")
def approve(context: typer.Context, asked: Id, output: Output = Format.TABLE) -> None:
    """Approve another user's request; its duration starts now.

    \b
    Example:
      towline access approve 01890a5d-ac96-774b-bcce-b302099a8057
    """
    _decide(context, documents.APPROVE_ACCESS, asked, output)


@app.command("deny")
def deny(context: typer.Context, asked: Id, output: Output = Format.TABLE) -> None:
    """Deny a request.

    \b
    Example:
      towline access deny 01890a5d-ac96-774b-bcce-b302099a8057
    """
    _decide(context, documents.REFUSE_ACCESS, asked, output)


@app.command("revoke")
def revoke(context: typer.Context, asked: Id, output: Output = Format.TABLE) -> None:
    """Revoke approved access; open sessions end within seconds.

    \b
    Example:
      towline access revoke 01890a5d-ac96-774b-bcce-b302099a8057
    """
    _decide(context, documents.REVOKE_ACCESS, asked, output)


@app.command("sessions")
def sessions(
    context: typer.Context,
    end_all: Annotated[bool, typer.Option("--end-all", help="Sign out all browsers.")] = False,
    output: Output = Format.TABLE,
) -> None:
    """List your browser sessions, or end all of them.

    \b
    Example:
      towline access sessions --end-all
    """
    api = connect(context)
    if end_all:
        ended = api.ask(documents.SIGN_OUT_EVERYWHERE)["signOutEverywhere"]
        say(f"ended {ended} session{'' if ended == 1 else 's'}")
        return
    columns = (field("NAME"), since("LAST USED", "lastUsedAt"), field("EXPIRES", "expiresAt"))
    show(api.ask(documents.SESSIONS)["sessions"], columns, output, "id")


def _decide(context: typer.Context, document: str, asked: str, output: Format) -> None:
    (decided,) = connect(context).ask(document, id=asked).values()
    show(decided, _REQUESTS, output, "id")
