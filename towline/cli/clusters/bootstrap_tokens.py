"""`towline clusters bootstrap-tokens`."""

from typing import TYPE_CHECKING, Annotated

import typer

from core.errors import Invalid, NotFound
from towline.cli.clusters import generated as operations
from towline.cli.clusters.generated import BootstrapToken
from towline.cli.projects.find import find_project_id
from towline.cli.shell.confirmation import Yes, confirm_deletion
from towline.cli.shell.formats import Format, Output
from towline.cli.shell.output import Column, age_column, field, say, show
from towline.cli.shell.polling import seconds
from towline.cli.shell.session import connect, name_value_pairs, not_found, parse_pairs

if TYPE_CHECKING:
    from towline.generated_inputs import BootstrapTokenAttributes

app = typer.Typer(
    no_args_is_help=True, help="Tokens with which agents register their clusters by themselves."
)

Tags = Annotated[
    list[str] | None, typer.Option("--tag", help="Tag of new clusters, as key=value; repeatable.")
]
COLUMNS: tuple[Column[BootstrapToken], ...] = (
    field("NAME"),
    field("ID"),
    Column("CLUSTERS", lambda row: f"{row['uses']} of {row['maxUses']}"),
    field("EXPIRES", "expiresAt"),
    age_column("LAST USED", "lastUsedAt"),
    Column("", lambda row: "revoked" if row["revokedAt"] else ""),
)


@app.command("list")
def list_tokens(context: typer.Context, output: Output = Format.TABLE) -> None:
    """List bootstrap tokens, without the tokens themselves.

    \b
    Example:
      towline clusters bootstrap-tokens list
    """
    show(operations.bootstrap_tokens(connect(context)), COLUMNS, output, "name")


@app.command("create")
def create_token(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="Display name.")],
    expires: Annotated[
        str, typer.Option(help="Lifetime of the token, such as 30m, 24h or 7d.")
    ] = "24h",
    uses: Annotated[int, typer.Option(min=1, help="Maximum number of clusters.")] = 1,
    project: Annotated[str | None, typer.Option(help="Project of new clusters.")] = None,
    tag: Tags = None,
    adopt: Annotated[
        bool, typer.Option("--adopt", help="Take over registered clusters without an agent.")
    ] = False,
) -> None:
    """Create a bootstrap token, and print it. Towline shows it only once.

    \b
    Example:
      towline clusters bootstrap-tokens create edge --uses 200 --expires 30d --tag tier=edge
    """
    api = connect(context)
    attributes: BootstrapTokenAttributes = {
        "name": name,
        "expiresInSeconds": seconds(expires, "--expires"),
        "maxUses": uses,
        "tags": name_value_pairs(parse_pairs(tag, "--tag")),
        "adopts": adopt,
        "projectId": find_project_id(api, project),
    }
    created = operations.create_bootstrap_token(api, attributes)
    say(f"{name}: {uses} clusters until {created['bootstrapToken']['expiresAt']}")
    print(created["token"])


@app.command("revoke")
def revoke_token(
    context: typer.Context,
    token: Annotated[str, typer.Argument(help="Name or id of the bootstrap token.")],
    yes: Yes = False,
    output: Output = Format.TABLE,
) -> None:
    """Revoke a bootstrap token. Clusters that joined with it stay registered.

    \b
    Example:
      towline clusters bootstrap-tokens revoke edge
    """
    api = connect(context)
    matching = [
        row for row in operations.bootstrap_tokens(api) if token in (row["name"], row["id"])
    ]
    if not matching:
        raise NotFound(not_found(f"bootstrap token {token}", "clusters bootstrap-tokens list"))
    if len(matching) > 1:
        raise Invalid(f"{len(matching)} bootstrap tokens have the name {token}; use an id")
    confirm_deletion(f"bootstrap token {token}", yes=yes)
    show(operations.revoke_bootstrap_token(api, matching[0]["id"]), COLUMNS, output, "name")
