"""`towline access …`: who has which role where, questions about rights, access for some time."""

from datetime import timedelta
from typing import Annotated, Any

import typer

from fleet.runtime.clock import SystemClock
from towline.cli import documents
from towline.cli.output import Column, Format, field, say, show, since
from towline.cli.places import EVERYWHERE, kind_and_id, scope_of
from towline.cli.session import Json, Output, connect

app = typer.Typer(no_args_is_help=True, help="Who may do what, why, and for how long.")

Place = Annotated[
    str, typer.Argument(help=f"{EVERYWHERE}, project/NAME, cluster/HANDLE, service/CLUSTER/NAME.")
]
Id = Annotated[str, typer.Argument(metavar="ID", help="See `list` or `requests`.")]


def _subject(row: Any) -> str:
    return row["user"]["email"] if row["user"] else f"group {row['group']['name']}"


COLUMNS = (
    Column("WHO", _subject),
    field("ROLE", "role", "name"),
    field("WHERE", "place"),
    field("UNTIL", "expiresAt"),
    field("GIVEN BY", "givenBy"),
    field("ID"),
)
_REQUESTS = (
    field("WHO", "user", "email"),
    field("ROLE", "role", "name"),
    field("WHERE", "place"),
    field("MINUTES"),
    field("STATE"),
    since("ASKED", "insertedAt"),
    field("REASON"),
    field("ID"),
)
_HOLDERS = (
    field("WHO", "user", "email"),
    Column("WHY", lambda row: "; ".join(f"{r['role']} {r['why']}" for r in row["reasons"])),
)


@app.command("list")
def list_bindings(
    context: typer.Context,
    place: Annotated[str | None, typer.Argument(help="Only roles bound there.")] = None,
    output: Output = Format.TABLE,
) -> None:
    """List who has which role where.

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
    user: Annotated[str | None, typer.Option(help="Address of a user.")] = None,
    group: Annotated[str | None, typer.Option(help="Name of a group.")] = None,
    hours: Annotated[int | None, typer.Option(min=1, help="Only for so long.")] = None,
    reason: Annotated[str | None, typer.Option(help="Why.")] = None,
    output: Output = Format.TABLE,
) -> None:
    """Give a role to a user or a group. Nobody gives what they do not hold.

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


@app.command("take")
def take(context: typer.Context, binding: Id, output: Output = Format.TABLE) -> None:
    """Take a role back; what it opened ends within seconds.

    \b
    Example:
      towline access take 01890a5d-ac96-774b-bcce-b302099a8057
    """
    gone = connect(context).ask(documents.DELETE_BINDING, id=binding)["deleteRoleBinding"]
    show(gone, COLUMNS, output, "id")


@app.command("can")
def can(
    context: typer.Context,
    verb: Annotated[str, typer.Argument(help="read, write, approve, connect, administer.")],
    thing: Annotated[str, typer.Argument(help="Like cluster/dev; a kind alone means all.")],
) -> None:
    """Say whether you may do something; exit code 4 if not.

    \b
    Example:
      towline access can write cluster/dev
      towline access can administer user
    """
    api = connect(context)
    kind, id = kind_and_id(api, thing)
    allowed = api.ask(documents.CAN, verb=verb.upper(), kind=kind, id=id)["can"]
    print("yes" if allowed else "no")
    if not allowed:
        raise typer.Exit(4)


@app.command("who-can")
def who_can(
    context: typer.Context,
    verb: Annotated[str, typer.Argument(help="read, write, approve, connect, administer.")],
    thing: Annotated[str, typer.Argument(help="Like cluster/dev; a kind alone means all.")],
    output: Output = Format.TABLE,
) -> None:
    """List everybody who may do something, and why.

    \b
    Example:
      towline access who-can connect cluster/prod
    """
    api = connect(context)
    kind, id = kind_and_id(api, thing)
    found = api.ask(documents.WHO_CAN, verb=verb.upper(), kind=kind, id=id)["whoCan"]
    show([{**one, "email": one["user"]["email"]} for one in found], _HOLDERS, output, "email")


@app.command("request")
def request(
    context: typer.Context,
    role: Annotated[str, typer.Argument(help="Name of the role.")],
    place: Place,
    reason: Annotated[str, typer.Option(help="Why; who decides reads it.")],
    minutes: Annotated[int, typer.Option(min=1, max=10080, help="For how long.")] = 60,
    output: Output = Format.TABLE,
) -> None:
    """Ask for a role for some minutes; somebody else decides.

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
    """List your requests, and those that you could decide.

    \b
    Example:
      towline access requests
    """
    show(connect(context).ask(documents.ACCESS_REQUESTS)["accessRequests"], _REQUESTS, output, "id")


@app.command("approve")
def approve(context: typer.Context, asked: Id, output: Output = Format.TABLE) -> None:
    """Give what somebody else asked for, from now on.

    \b
    Example:
      towline access approve 01890a5d-ac96-774b-bcce-b302099a8057
    """
    _decide(context, documents.APPROVE_ACCESS, asked, output)


@app.command("refuse")
def refuse(context: typer.Context, asked: Id, output: Output = Format.TABLE) -> None:
    """Say no.

    \b
    Example:
      towline access refuse 01890a5d-ac96-774b-bcce-b302099a8057
    """
    _decide(context, documents.REFUSE_ACCESS, asked, output)


@app.command("revoke")
def revoke(context: typer.Context, asked: Id, output: Output = Format.TABLE) -> None:
    """Take back what was approved; open sessions end within seconds.

    \b
    Example:
      towline access revoke 01890a5d-ac96-774b-bcce-b302099a8057
    """
    _decide(context, documents.REVOKE_ACCESS, asked, output)


@app.command("sessions")
def sessions(
    context: typer.Context,
    end_all: Annotated[bool, typer.Option("--end-all", help="Sign out everywhere.")] = False,
    output: Output = Format.TABLE,
) -> None:
    """List where browsers are signed in as you, or end all of it.

    \b
    Example:
      towline access sessions --end-all
    """
    api = connect(context)
    if end_all:
        ended = api.ask(documents.SIGN_OUT_EVERYWHERE)["signOutEverywhere"]
        say(f"{ended} sessions have ended")
        return
    columns = (field("NAME"), since("USED", "lastUsedAt"), field("EXPIRES", "expiresAt"))
    show(api.ask(documents.SESSIONS)["sessions"], columns, output, "id")


def _decide(context: typer.Context, document: str, asked: str, output: Format) -> None:
    (decided,) = connect(context).ask(document, id=asked).values()
    show(decided, _REQUESTS, output, "id")
