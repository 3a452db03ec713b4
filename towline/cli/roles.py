"""`towline roles …`."""

from pathlib import Path
from typing import Annotated, Any

import typer

from fleet.errors import Invalid
from towline.cli import documents
from towline.cli.lazy import load
from towline.cli.output import Column, Format, field, show
from towline.cli.session import Json, Output, connect

app = typer.Typer(no_args_is_help=True, help="Roles: named sets of rights.")


def _rules(row: Any) -> str:
    """Rules as `read,write cluster,service; …`; everything is `*`."""
    return "; ".join(
        f"{','.join(rule['verbs']).lower() or '*'} {','.join(rule['kinds']).lower() or '*'}"
        for rule in row["rules"]
    )


COLUMNS = (
    field("NAME"),
    field("BUILT IN", "builtIn"),
    Column("RULES", _rules),
    Column("GROUPS IN CLUSTERS", lambda row: ",".join(row["kubernetes"]["groups"])),
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
    file: Annotated[Path, typer.Option("-f", "--file", help="YAML: name, rules, kubernetes.")],
    output: Output = Format.TABLE,
) -> None:
    """Make a role, or change the one of this name for all who have it.

    \b
    Example:
      towline roles set -f debugger.yaml
    """
    given = load("yaml").safe_load(file.read_text())
    if not isinstance(given, dict) or not isinstance(given.get("name"), str):
        raise Invalid(f"{file} has no name")
    given["rules"] = [_upper(one) for one in given.get("rules") or ()]
    api = connect(context)
    known = [one for one in api.ask(documents.ROLES)["roles"] if one["name"] == given["name"]]
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
    """Delete a role that nobody has.

    \b
    Example:
      towline roles delete debugger
    """
    api = connect(context)
    role = api.ask(documents.ROLE, name=name)["role"]
    show(api.ask(documents.DELETE_ROLE, id=role["id"])["deleteRole"], COLUMNS, output, "name")


def _upper(rule: Json) -> Json:
    """A rule as the API takes it: verbs and kinds are its words in capitals."""
    return {part: [str(one).upper() for one in rule.get(part) or ()] for part in ("verbs", "kinds")}
