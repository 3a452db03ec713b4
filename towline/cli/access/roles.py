"""`towline roles …`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from core.errors import Invalid
from core.json_object import JsonObject
from towline.cli.access import generated as operations
from towline.cli.access.generated import Role
from towline.cli.shell.confirmation import Yes, confirm_deletion
from towline.cli.shell.formats import Format, Output
from towline.cli.shell.output import Column, field, show
from towline.cli.shell.selectors import Selector
from towline.cli.shell.session import connect
from towline.cli.shell.yaml_files import errors_of, read_map

if TYPE_CHECKING:
    from towline.generated_inputs import RoleAttributes

app = typer.Typer(no_args_is_help=True, help="Roles: named sets of permissions.")


def _format_rules(row: Role) -> str:
    """Formats rules as `read,write cluster,service; …`; `*` means all."""
    return "; ".join(
        f"{','.join(rule['verbs']).lower() or '*'} {','.join(rule['kinds']).lower() or '*'}"
        for rule in row["rules"]
    )


COLUMNS: tuple[Column[Role], ...] = (
    field("NAME"),
    field("BUILT IN", "builtIn"),
    Column("RULES", _format_rules),
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
    role_file = read_map(file, "--file", "a role")
    if not isinstance(role_file.get("name"), str):
        raise Invalid(f"{file}: a role requires the field name")
    role_file["rules"] = _rules_of(role_file.get("rules") or [], file)
    attributes, api = cast("RoleAttributes", role_file), connect(context)
    existing = [row for row in operations.roles(api) if row["name"] == attributes["name"]]
    with errors_of(file, "attributes"):
        if existing:
            role = operations.update_role(api, existing[0]["id"], attributes)
        else:
            role = operations.create_role(api, attributes)
    show(role, COLUMNS, output, "name")


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


def _rules_of(rules: object, file: Path) -> list[JsonObject]:
    """Converts the rules of a file for the API, with verbs and kinds in capitals.

    Keeps unknown fields, so that the API refuses them: a mistyped `kinds` must not mean all kinds.
    """
    if not isinstance(rules, list) or not all(isinstance(rule, dict) for rule in rules):
        raise Invalid(f"{file}: rules: use a list of maps with verbs and kinds")
    return [
        {
            **rule,
            **{
                field: _upper_values(rule.get(field), f"{file}: {field}")
                for field in ("verbs", "kinds")
            },
        }
        for rule in rules
    ]


def _upper_values(values: object, location: str) -> list[str]:
    if not isinstance(values or [], list):
        raise Invalid(f"{location}: use a list of words, such as [read]")
    return [str(value).upper() for value in cast("list[object]", values or [])]
