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
    given["rules"] = _rules_of(given.get("rules") or [], file)
    attributes, api = cast("RoleAttributes", given), connect(context)
    known = [role for role in operations.roles(api) if role["name"] == attributes["name"]]
    with errors_of(file, "attributes"):
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


def _rules_of(given: object, file: Path) -> list[JsonObject]:
    """Converts the rules of a file for the API, with verbs and kinds in capitals.

    Keeps unknown fields, so that the API refuses them: a mistyped `kinds` must not mean all kinds.
    """
    if not isinstance(given, list) or not all(isinstance(rule, dict) for rule in given):
        raise Invalid(f"{file}: rules: use a list of maps with verbs and kinds")
    return [
        {**rule, **{part: _upper(rule.get(part), f"{file}: {part}") for part in ("verbs", "kinds")}}
        for rule in given
    ]


def _upper(words: object, place: str) -> list[str]:
    if not isinstance(words or [], list):
        raise Invalid(f"{place}: use a list of words, such as [read]")
    return [str(word).upper() for word in cast("list[object]", words or [])]
