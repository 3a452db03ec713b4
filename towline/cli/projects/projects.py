"""`towline projects …`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from towline.cli.projects import generated as operations
from towline.cli.projects.find import find_project
from towline.cli.projects.generated import Project, ServiceFenceChecks
from towline.cli.shell.confirmation import Yes, confirm_deletion
from towline.cli.shell.formats import Format, Output
from towline.cli.shell.output import Column, age_column, field, say, show
from towline.cli.shell.resource_commands import add_list
from towline.cli.shell.session import connect, first_found
from towline.cli.shell.yaml_files import errors_of, read_map

if TYPE_CHECKING:
    from towline.generated_inputs import FenceAttributes, ProjectAttributes

app = typer.Typer(no_args_is_help=True, help="Projects: tenants, and the fences of their services.")

COLUMNS: tuple[Column[Project], ...] = (
    field("NAME"),
    field("DESCRIPTION"),
    age_column("CREATED", "insertedAt"),
    field("ID"),
)


def _decision(check: ServiceFenceChecks) -> str:
    rule = f" ({check['rule']})" if check["rule"] else ""
    return f"refused{rule}: {check['refusal']}" if check["refusal"] else f"allowed{rule}"


CHECKS: tuple[Column[ServiceFenceChecks], ...] = (
    field("SOURCE, DESTINATION OR IMAGE", "subject"),
    Column("FENCE", _decision),
)
Name = Annotated[str, typer.Argument(help="Name of the project.")]


add_list(
    app,
    "towline projects list",
    "List the projects that you can read.",
    operations.projects,
    COLUMNS,
    "name",
)


@app.command("create")
def create_project(
    context: typer.Context,
    name: Name,
    description: Annotated[str | None, typer.Option(help="Description.")] = None,
    output: Output = Format.TABLE,
) -> None:
    """Create a project.

    \b
    Example:
      towline projects create shop --description "The web shop"
    """
    attributes: ProjectAttributes = {"name": name, "description": description}
    show(operations.create_project(connect(context), attributes), COLUMNS, output, "name")


@app.command("fence")
def project_fence(
    context: typer.Context,
    name: Name,
    file: Annotated[
        Path | None,
        typer.Option("-f", "--file", help="YAML file with the whole new fence; - for stdin."),
    ] = None,
    confirm: Annotated[
        bool, typer.Option("--confirm", help="Leave existing services outside the new fence.")
    ] = False,
) -> None:
    """Show the fence of a project as YAML, or replace it with that of a file.

    A fence that leaves existing services outside is refused with their names, unless --confirm is
    given: then they keep their objects and get no new ones.

    \b
    Example:
      towline projects fence shop > fence.yaml
      towline projects fence shop -f fence.yaml
    """
    content = read_map(file, "--file", "a fence") if file is not None else None
    api = connect(context)
    id = find_project(api, name)["id"]
    if content is not None:
        fence = cast("FenceAttributes", content)
        attributes: ProjectAttributes = {"name": name, "fence": fence, "confirmFence": confirm}
        with errors_of(cast("Path", file), "attributes.fence"):
            operations.update_project(api, id, attributes)
    show(operations.project_fence(api, id)["fence"], (), Format.YAML, "unrestricted")


@app.command("check")
def check_service(
    context: typer.Context,
    service: Annotated[str, typer.Argument(help="Service, as CLUSTER/NAME or an id.")],
    output: Output = Format.TABLE,
) -> None:
    """Show what the fence of a service's project allows and refuses, and by which rule.

    Lists sources, the destination, and the images of the rendered bundle. Exits with code 1 if one
    is outside the fence.

    \b
    Example:
      towline projects check prod/web
    """
    api = connect(context)
    cluster, slash, name = service.partition("/")
    identity = {"cluster": cluster, "name": name} if slash else {"id": service}
    fenced = first_found(f"service {service}", lambda: operations.fenced_service(api, **identity))
    report = operations.service_fence(api, fenced["id"])
    show(report["checks"], CHECKS, output, "subject")
    say(
        f"project {report['project']['name']}, applied as "
        f"{report['serviceAccount'] or 'the agent itself'}"
    )
    if report["renderError"]:
        say(f"the last render failed, so its images are unknown: {report['renderError']}")
    if any(check["refusal"] for check in report["checks"]):
        raise typer.Exit(1)


@app.command("delete")
def delete_project(
    context: typer.Context, name: Name, yes: Yes = False, output: Output = Format.TABLE
) -> None:
    """Delete an empty project and its role bindings.

    \b
    Example:
      towline projects delete shop
    """
    confirm_deletion(f"project {name}", yes=yes)
    api = connect(context)
    show(operations.delete_project(api, find_project(api, name)["id"]), COLUMNS, output, "name")
