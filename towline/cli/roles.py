"""`towline roles …`."""

from pathlib import Path
from typing import Annotated, Any

import typer

from core.errors import Invalid
from towline.cli import documents
from towline.cli.lazy_import import load
from towline.cli.output import Column, Format, field, show
from towline.cli.session import Json, Output, connect

app = typer.Typer(no_args_is_help=True, help="Roles: named sets of permissions.")


def _rules(row: Any) -> str:
    """Formats rules as `read,write cluster,service; …`; `*` means all."""
    return "; ".join(
        f"{','.join(rule['verbs']).lower() or '*'} {','.join(rule['kinds']).lower() or '*'}"
        for rule in row["rules"]
    )


COLUMNS = (
    field("NAME"),
    field("BUILT IN", "builtIn"),
    Column("RULES", _rules),
    Column("KUBERNETES GROUPS", lambda row: ",".join(row["kubernetes"]["groups"])),
)


@app.command("list")
def list_roles(context: typer.Context, output: Output = Format.TABLE) -> None:
    """List roles, built-in ones first.

    \b
    Example:
      towline roles list
      towline roles list -o yaml
    """
    show(connect(context).ask(documents.ROLES)["roles"], COLUMNS, output, "name")


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
    given = load("yaml").safe_load(file.read_text())
    if not isinstance(given, dict) or not isinstance(given.get("name"), str):
        raise Invalid(f"{file}: a role requires the field name")
    given["rules"] = [_upper(rule) for rule in given.get("rules") or ()]
    api = connect(context)
    known = [role for role in api.ask(documents.ROLES)["roles"] if role["name"] == given["name"]]
    if known:
        asked = {"id": known[0]["id"], "attributes": given}
        made = api.ask(documents.UPDATE_ROLE, **asked)["updateRole"]
    else:
        made = api.ask(documents.CREATE_ROLE, attributes=given)["createRole"]
    show(made, COLUMNS, output, "name")


@app.command("delete")
def delete_role(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="Name of the role.")],
    output: Output = Format.TABLE,
) -> None:
    """Delete a role without bindings.

    \b
    Example:
      towline roles delete debugger
    """
    api = connect(context)
    role = api.ask(documents.ROLE, name=name)["role"]
    show(api.ask(documents.DELETE_ROLE, id=role["id"])["deleteRole"], COLUMNS, output, "name")


def _upper(rule: Json) -> Json:
    """Converts a rule for the API, with verbs and kinds in capitals."""
    return {
        part: [str(word).upper() for word in rule.get(part) or ()] for part in ("verbs", "kinds")
    }
