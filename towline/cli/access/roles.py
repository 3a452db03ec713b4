"""`towline roles …`."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from core.errors import Invalid
from towline.cli.access import generated as operations
from towline.cli.access.generated import Role
from towline.cli.shell.confirmation import Yes, confirm_deletion
from towline.cli.shell.formats import Format, Output
from towline.cli.shell.output import Column, field, show
from towline.cli.shell.selectors import Selector
from towline.cli.shell.session import connect
from towline.cli.shell.yaml_files import read_map

if TYPE_CHECKING:
    from towline.generated_inputs import RoleAttributes

app = typer.Typer(no_args_is_help=True, help="Roles: named sets of permissions.")


def _rules(row: Role) -> str:
    """Formats rules as `read,write cluster,service; …`; `*` means all."""
    return "; ".join(
        f"{','.join(rule['verbs']).lower() or '*'} {','.join(rule['kinds']).lower() or '*'}"
        for rule in row["rules"]
    )


COLUMNS: tuple[Column[Role], ...] = (
    field("NAME"),
    field("BUILT IN", "builtIn"),
    Column("RULES", _rules),
    Column("KUBERNETES GROUPS", lambda row: ",".join(row["kubernetes"]["groups"])),
)


@app.command("list")
def list_roles(
    context: typer.Context, selector: Selector = None, output: Output = Format.TABLE
) -> None:
    """List roles, built-in ones first.

    \b
    Example:
      towline roles list
      towline roles list -l team=shop -o yaml
    """
    show(operations.roles(connect(context), labels=selector), COLUMNS, output, "name")


@app.command("set")
def set_role(
    context: typer.Context,
    file: Annotated[
        Path, typer.Option("-f", "--file", help="YAML file with name, rules and kubernetes.")
    ],
    output: Output = Format.TABLE,
) -> None:
    """Create or update a role; an update affects everyone who has the role.

    \b
    Example:
      towline roles set -f debugger.yaml
    """
    given = read_map(file, "--file", "a role")
    if not isinstance(given.get("name"), str):
        raise Invalid(f"{file}: a role requires the field name")
    given["rules"] = [_upper(rule) for rule in given.get("rules") or ()]
    attributes, api = cast("RoleAttributes", given), connect(context)
    known = [role for role in operations.roles(api) if role["name"] == attributes["name"]]
    if known:
        made = operations.update_role(api, known[0]["id"], attributes)
    else:
        made = operations.create_role(api, attributes)
    show(made, COLUMNS, output, "name")


@app.command("delete")
def delete_role(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="Name of the role.")],
    yes: Yes = False,
    output: Output = Format.TABLE,
) -> None:
    """Delete a role without bindings.

    \b
    Example:
      towline roles delete debugger
    """
    confirm_deletion(f"role {name}", yes=yes)
    api = connect(context)
    role = operations.role(api, name)
    show(operations.delete_role(api, role["id"]), COLUMNS, output, "name")


def _upper(rule: Mapping[str, Sequence[object] | None]) -> dict[str, list[str]]:
    """Converts a rule for the API, with verbs and kinds in capitals."""
    return {
        part: [str(word).upper() for word in rule.get(part) or ()] for part in ("verbs", "kinds")
    }
