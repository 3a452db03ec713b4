"""`towline access …`: role bindings, permission checks, temporary access and sessions."""

from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from core.runtime.now import utc_now
from towline.cli.access import generated as operations
from towline.cli.access.generated import AccessRequest, Binding, WhoCan
from towline.cli.access.resource_names import EVERYWHERE, kind_and_id, scope_of
from towline.cli.shell.formats import Format, Output
from towline.cli.shell.option_groups import OptionGroup, option_groups
from towline.cli.shell.output import Column, age_column, count, field, say, show
from towline.cli.shell.selectors import Selector
from towline.cli.shell.session import connect
from towline.operations import GraphQLApi

if TYPE_CHECKING:
    from towline.generated_inputs import RoleBindingAttributes

app = typer.Typer(
    no_args_is_help=True, help="Role bindings, permission checks and temporary access."
)

Place = Annotated[
    str, typer.Argument(help=f"{EVERYWHERE}, project/NAME, cluster/HANDLE or service/CLUSTER/NAME.")
]
Id = Annotated[str, typer.Argument(metavar="ID", help="Id, as `list` or `requests` shows it.")]


class BindingOptions(OptionGroup):
    """Options of a new role binding."""

    user: Annotated[str | None, typer.Option(help="Email address of the user.")] = None
    group: Annotated[str | None, typer.Option(help="Name of the group.")] = None
    hours: Annotated[
        int | None, typer.Option(min=1, help="Expire after this many hours (default: never).")
    ] = None
    reason: Annotated[str | None, typer.Option(help="Reason, for the audit log.")] = None
    name: Annotated[
        str | None,
        typer.Option(help="Name, which makes the binding a manifest (default: none)."),
    ] = None
    cluster_tags: Annotated[
        str,
        typer.Option(
            help="Only in clusters with these tags, such as env=dev or 'team in (a,b)'; for a "
            "project or everywhere."
        ),
    ] = ""


class _PermissionHolder(WhoCan):
    email: str


def _subject(binding: Binding) -> str:
    if binding["user"]:
        return binding["user"]["email"]
    return f"group {binding['group']['name']}" if binding["group"] else ""


def _place(binding: Binding) -> str:
    tags = binding["clusterTags"]
    return f"clusters with {tags} in {binding['place']}" if tags else binding["place"]


def _expiry(binding: Binding) -> object:
    return "expired" if binding["expired"] else _EXPIRY.cell(binding)


_EXPIRY: Column[Binding] = age_column("EXPIRES", "expiresAt")
COLUMNS: tuple[Column[Binding], ...] = (
    Column("SUBJECT", _subject),
    field("ROLE", "role", "name"),
    Column("SCOPE", _place),
    Column("EXPIRES", _expiry),
    field("GRANTED BY", "givenBy"),
    field("NAME"),
    field("ID"),
)
_REQUESTS: tuple[Column[AccessRequest], ...] = (
    field("USER", "user", "email"),
    field("ROLE", "role", "name"),
    field("SCOPE", "place"),
    field("MINUTES"),
    field("STATE"),
    age_column("REQUESTED", "insertedAt"),
    field("REASON"),
    field("ID"),
)
_HOLDERS: tuple[Column[WhoCan], ...] = (
    field("USER", "user", "email"),
    Column("REASON", lambda row: "; ".join(f"{r['role']} {r['why']}" for r in row["reasons"])),
)


@app.command("list")
def list_bindings(
    context: typer.Context,
    place: Annotated[str | None, typer.Argument(help="Only bindings in this scope.")] = None,
    selector: Selector = None,
    output: Output = Format.TABLE,
) -> None:
    """List role bindings.

    \b
    Example:
      towline access list
      towline access list project/shop -l team=shop
    """
    api = connect(context)
    scope = scope_of(api, place) if place else None
    show(operations.bindings(api, scope=scope, labels=selector), COLUMNS, output, "id")


@app.command("grant")
@option_groups
def grant(
    context: typer.Context,
    role: Annotated[str, typer.Argument(help="Name of the role.")],
    place: Place,
    options: BindingOptions,
    output: Output = Format.TABLE,
) -> None:
    """Bind a role to a user or a group. You can only grant permissions that you hold.

    \b
    Example:
      towline access grant editor project/shop --group shop-team
      towline access grant admin cluster/dev --user ada@example.org --hours 8
      towline access grant editor everywhere --group devs --cluster-tags env=dev
    """
    api = connect(context)
    attributes: RoleBindingAttributes = {
        "role": role,
        "scope": scope_of(api, place),
        "user": options.user,
        "group": options.group,
        "reason": options.reason,
        "name": options.name,
        "clusterTags": options.cluster_tags,
    }
    if options.hours is not None:
        expires_at = utc_now() + timedelta(hours=options.hours)
        attributes["expiresAt"] = expires_at.isoformat()
    show(operations.create_binding(api, attributes), COLUMNS, output, "id")


@app.command("remove")
def remove_binding(context: typer.Context, binding: Id, output: Output = Format.TABLE) -> None:
    """Delete a role binding; sessions that depend on it end within seconds.

    \b
    Example:
      towline access remove 01890a5d-ac96-774b-bcce-b302099a8057
    """
    show(operations.delete_binding(connect(context), binding), COLUMNS, output, "id")


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
    allowed = operations.can(api, verb.upper(), kind, id=id)
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
    holders = operations.who_can(api, verb.upper(), kind, id=id)
    rows: list[_PermissionHolder] = [
        {**holder, "email": holder["user"]["email"]} for holder in holders
    ]
    show(rows, _HOLDERS, output, "email")


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
    access_request = operations.request_access(api, role, scope_of(api, place), minutes, reason)
    show(access_request, _REQUESTS, output, "id")


@app.command("requests")
def list_requests(context: typer.Context, output: Output = Format.TABLE) -> None:
    """List your requests, and requests that you can approve.

    \b
    Example:
      towline access requests
    """
    show(operations.access_requests(connect(context)), _REQUESTS, output, "id")


@app.command("approve")
def approve(context: typer.Context, request_id: Id, output: Output = Format.TABLE) -> None:
    """Approve another user's request; its duration starts now.

    \b
    Example:
      towline access approve 01890a5d-ac96-774b-bcce-b302099a8057
    """
    _decide(context, operations.approve_access, request_id, output)


@app.command("deny")
def deny(context: typer.Context, request_id: Id, output: Output = Format.TABLE) -> None:
    """Deny a request.

    \b
    Example:
      towline access deny 01890a5d-ac96-774b-bcce-b302099a8057
    """
    _decide(context, operations.deny_access, request_id, output)


@app.command("revoke")
def revoke(context: typer.Context, request_id: Id, output: Output = Format.TABLE) -> None:
    """Revoke approved access; open sessions end within seconds.

    \b
    Example:
      towline access revoke 01890a5d-ac96-774b-bcce-b302099a8057
    """
    _decide(context, operations.revoke_access, request_id, output)


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
        say(f"ended {count(operations.sign_out_everywhere(api), 'session')}")
        return
    columns = (
        field("NAME"),
        age_column("LAST USED", "lastUsedAt"),
        age_column("EXPIRES", "expiresAt"),
    )
    show(operations.sessions(api), columns, output, "id")


def _decide(
    context: typer.Context,
    decide: Callable[[GraphQLApi, str], AccessRequest],
    request_id: str,
    output: Format,
) -> None:
    show(decide(connect(context), request_id), _REQUESTS, output, "id")
