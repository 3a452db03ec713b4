"""`towline notifications …`."""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from core.errors import Invalid, NotFound
from towline.cli.projects.find import find_project_id
from towline.cli.reports import generated as operations
from towline.cli.reports.audit import KindFilter
from towline.cli.reports.generated import Delivery, NotificationsNode, Router, Sink
from towline.cli.repositories.find import find_repository
from towline.cli.shell.confirmation import Yes, confirm_deletion
from towline.cli.shell.formats import Format, Output
from towline.cli.shell.option_groups import OptionGroup, option_groups
from towline.cli.shell.output import Column, field, say, show
from towline.cli.shell.plugin_kinds import SINK_KINDS
from towline.cli.shell.resource_commands import add_list
from towline.cli.shell.selectors import Selector
from towline.cli.shell.session import Search, connect, not_found
from towline.input_files import read_secret
from towline.operations import PAGE, GraphQLApi

if TYPE_CHECKING:
    from towline.generated_inputs import (
        NotificationRouterAttributes,
        NotificationSinkAttributes,
        RouterFilterAttributes,
        SinkConfigurationAttributes,
    )

SinkType = StrEnum("SinkType", {kind: kind.lower() for kind in SINK_KINDS})
_OPTIONS = {
    "url": "--url-file",
    "token": "--token-file",
    "apiUrl": "--api-url",
    "repositoryId": "--repository",
}

app = typer.Typer(no_args_is_help=True, help="Notifications, sinks, routers and deliveries.")

_SINKS: tuple[Column[Sink], ...] = (
    field("NAME"),
    field("TYPE"),
    field("HOST"),
    field("AUDIT"),
    field("ERROR"),
    field("ID"),
)
_NOTIFICATIONS: tuple[Column[NotificationsNode], ...] = (
    field("AT"),
    field("SEVERITY"),
    field("KIND"),
    field("SUBJECT"),
)


class Severity(StrEnum):
    """Lowest severity that a router forwards."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class DeliveryStateFilter(StrEnum):
    """State of a delivery."""

    WAITING = "waiting"
    DONE = "done"
    DEAD = "dead"


Resource = TypeVar("Resource", Sink, Router)
Project = Annotated[
    str | None, typer.Option(help="Name or id of the project (default: the whole installation).")
]


@app.command("list")
def list_news(context: typer.Context, query: Search = None, output: Output = Format.TABLE) -> None:
    """Show the newest notifications.

    \b
    Example:
      towline notifications list -q prod
    """
    rows = operations.notifications(connect(context), first=PAGE, q=query)
    show(rows, _NOTIFICATIONS, output, "id")


add_list(
    app, "towline notifications sinks", "List notification sinks.", operations.sinks, _SINKS, "name"
)


class SinkOptions(OptionGroup):
    """Options of a sink."""

    url_file: Annotated[
        Path | None, typer.Option(help="File containing the URL; - reads standard input.")
    ] = None
    token_file: Annotated[
        Path | None,
        typer.Option(help="File containing a token with permission to write commit statuses."),
    ] = None
    repository: Annotated[
        str | None, typer.Option(help="URL of the repository for commit statuses.")
    ] = None
    api_url: Annotated[str | None, typer.Option(help="API URL of the Git host.")] = None
    setting_file: Annotated[
        list[str] | None,
        typer.Option(help="File containing another setting, as NAME=FILE; repeatable."),
    ] = None
    audit: Annotated[
        list[KindFilter] | None,
        typer.Option(help="Also forward audit rows of this kind; repeatable."),
    ] = None
    project: Project = None

    def configuration(self, api: GraphQLApi, kind: SinkType) -> "SinkConfigurationAttributes":
        """Settings of the sink's kind. Raises Invalid if the kind lacks one, or needs another."""
        settings = {
            "url": read_secret(self.url_file, "--url-file"),
            "token": read_secret(self.token_file, "--token-file"),
            "apiUrl": self.api_url,
            **_setting_files(self.setting_file or []),
        }
        repository = find_repository(api, self.repository)["id"] if self.repository else None
        settings["repositoryId"] = repository
        return sink_configuration(kind.name, settings)


@app.command("set-sink")
@option_groups
def set_sink(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="Name of the sink.")],
    type: Annotated[SinkType, typer.Option(help="Kind of the sink.")],
    options: SinkOptions,
    output: Output = Format.TABLE,
) -> None:
    """Create or update a sink. A signing secret is shown only once.

    \b
    Example:
      towline notifications set-sink ops --type slack --url-file slack.url
      towline notifications set-sink siem --type syslog --url-file - --audit change
      towline notifications set-sink statuses --type github --token-file token \\
        --repository https://github.com/example/fleet
    """
    api = connect(context)
    attributes: NotificationSinkAttributes = {
        "name": name,
        "type": type.name,
        "projectId": find_project_id(api, options.project),
        "configuration": options.configuration(api, type),
    }
    if options.audit is not None:
        attributes["audit"] = [kind.name for kind in options.audit]
    sink = operations.set_sink(api, attributes)
    show(sink, _SINKS, output, "name")
    if sink["signingSecret"] and output.is_table:
        print(f"signing secret, shown only once: {sink['signingSecret']}")


@app.command("delete-sink")
def delete_sink(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="Name of the sink.")],
    yes: Yes = False,
    output: Output = Format.TABLE,
) -> None:
    """Delete a sink that no router uses.

    \b
    Example:
      towline notifications delete-sink ops
    """
    confirm_deletion(f"sink {name}", yes=yes)
    api = connect(context)
    show(operations.delete_sink(api, _sink_id(api, name)), _SINKS, output, "name")


@app.command("test-sink")
def test_sink(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="Name of the sink.")],
    output: Output = Format.TABLE,
) -> None:
    """Send a test notification to a sink; see `deliveries` for the result.

    \b
    Example:
      towline notifications test-sink ops
    """
    api = connect(context)
    show(operations.test_sink(api, _sink_id(api, name)), _delivery_columns(api), output, "id")
    say("see its result with: towline notifications deliveries")


@app.command("routers")
def list_routers(
    context: typer.Context,
    query: Search = None,
    selector: Selector = None,
    output: Output = Format.TABLE,
) -> None:
    """List notification routers.

    \b
    Example:
      towline notifications routers
    """
    api = connect(context)
    show(operations.routers(api, q=query, labels=selector), _router_columns(api), output, "name")


class RouterOptions(OptionGroup):
    """Options of a router."""

    event: Annotated[
        list[str] | None,
        typer.Option(help="Event, such as service.failed or service.*; repeatable."),
    ] = None
    severity: Annotated[Severity, typer.Option(help="Minimum severity.")] = Severity.INFO
    regex: Annotated[
        str | None, typer.Option(help="Only subjects that match this regular expression.")
    ] = None
    selector: Selector = None
    project: Project = None

    def filters(self) -> "list[RouterFilterAttributes]":
        """Builds the filter, if there is one."""
        filters: RouterFilterAttributes = {"regex": self.regex, "labels": self.selector}
        return [filters] if self.regex or self.selector else []


@app.command("set-router")
@option_groups
def set_router(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="Name of the router.")],
    sink: Annotated[list[str], typer.Option(help="Name of a sink; repeatable.")],
    options: RouterOptions,
    output: Output = Format.TABLE,
) -> None:
    """Create or update a router.

    \b
    Example:
      towline notifications set-router alerts --sink ops --severity error
      towline notifications set-router gates --sink ops --event pipeline.gate
      towline notifications set-router shop --sink shop -l team=shop
    """
    api = connect(context)
    attributes: NotificationRouterAttributes = {
        "name": name,
        "events": options.event or ["*"],
        "routerSinks": [{"sinkId": _sink_id(api, name)} for name in sink],
        "filters": options.filters(),
        "severity": options.severity.name,
        "projectId": find_project_id(api, options.project),
    }
    show(operations.set_router(api, attributes), _router_columns(api), output, "name")


@app.command("delete-router")
def delete_router(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="Name of the router.")],
    yes: Yes = False,
    output: Output = Format.TABLE,
) -> None:
    """Delete a router; its sinks stay.

    \b
    Example:
      towline notifications delete-router alerts
    """
    confirm_deletion(f"router {name}", yes=yes)
    api = connect(context)
    router = _find_by_name(operations.routers(api, q=name), "router", name)
    show(operations.delete_router(api, router["id"]), _router_columns(api), output, "name")


@app.command("deliveries")
def list_deliveries(
    context: typer.Context,
    state: Annotated[
        DeliveryStateFilter | None,
        typer.Option(help="Filter by state; dead deliveries are no longer retried."),
    ] = None,
    output: Output = Format.TABLE,
) -> None:
    """Show deliveries of notifications to sinks.

    \b
    Example:
      towline notifications deliveries --state dead
    """
    api, state_name = connect(context), state.name if state else None
    rows = operations.deliveries(api, first=PAGE, state=state_name)
    show(rows, _delivery_columns(api), output, "id")


@app.command("resend")
def resend(
    context: typer.Context,
    id: Annotated[str, typer.Argument(help="Id of the delivery.")],
    output: Output = Format.TABLE,
) -> None:
    """Retry a delivery.

    \b
    Example:
      towline notifications resend 0198c2f1-7a54-7c3e-9d7b-5d4f0a6b1c2d
    """
    api = connect(context)
    show(operations.resend_notification(api, id), _delivery_columns(api), output, "id")


def sink_configuration(kind: str, given: Mapping[str, str | None]) -> "SinkConfigurationAttributes":
    """Returns the settings of a sink. Raises Invalid if its kind lacks one, or needs another."""
    ((key, schema),) = SINK_KINDS[kind]["properties"].items()
    settings = {name: value for name, value in given.items() if value is not None}
    for name in settings.keys() - schema["properties"].keys():
        raise Invalid(f"a {kind.lower()} sink has no {name}", field=_OPTIONS.get(name, name))
    for name in set(schema["required"]) - settings.keys():
        raise Invalid(f"a {kind.lower()} sink needs it", field=_OPTIONS.get(name, name))
    return {key: settings}


def _setting_files(options: list[str]) -> dict[str, str | None]:
    pairs = [text.partition("=") for text in options]
    if not all(path for _, _, path in pairs):
        raise Invalid("must be NAME=FILE", field="--setting-file")
    return {name: read_secret(Path(path), "--setting-file") for name, _, path in pairs}


def _router_columns(api: GraphQLApi) -> tuple[Column[Router], ...]:
    names = _sink_names(api)
    return (
        field("NAME"),
        field("EVENTS"),
        field("SEVERITY"),
        Column("SINKS", lambda row: ",".join(names.get(id, id) for id in row["sinkIds"])),
        field("ID"),
    )


def _delivery_columns(api: GraphQLApi) -> tuple[Column[Delivery], ...]:
    names = _sink_names(api)
    return (
        field("STATE"),
        field("ATTEMPTS"),
        field("STATUS"),
        field("ERROR"),
        Column("SINK", lambda row: names.get(row["sinkId"], row["sinkId"])),
        field("ID"),
    )


def _sink_names(api: GraphQLApi) -> dict[str, str]:
    """Names of the sinks that the user may read, by id."""
    return {sink["id"]: sink["name"] for sink in operations.sinks(api)}


def _sink_id(api: GraphQLApi, name: str) -> str:
    return _find_by_name(operations.sinks(api, q=name), "sink", name)["id"]


def _find_by_name(rows: Iterable[Resource], noun: str, name: str) -> Resource:
    matching = [row for row in rows if row["name"] == name]
    if not matching:
        raise NotFound(not_found(f"{noun} {name}", f"notifications {noun}s"))
    return matching[0]
