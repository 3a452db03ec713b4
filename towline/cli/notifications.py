"""`towline notifications …`."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from core.errors import Invalid, NotFound
from towline.cli import documents
from towline.cli.output import Format, field, show
from towline.cli.session import GraphQLApi, Json, Output, Search, connect, every, find_repository

app = typer.Typer(no_args_is_help=True, help="Notifications, sinks, routers and deliveries.")

_SINKS = (
    field("NAME"),
    field("TYPE"),
    field("HOST"),
    field("AUDIT"),
    field("ERROR"),
    field("ID"),
)
_ROUTERS = (
    field("NAME"),
    field("EVENTS"),
    field("SEVERITY"),
    field("SINKS", "sinkIds"),
    field("ID"),
)
_NOTIFICATIONS = (field("AT"), field("SEVERITY"), field("KIND"), field("SUBJECT"))
_DELIVERIES = (
    field("STATE"),
    field("ATTEMPTS"),
    field("STATUS"),
    field("ERROR"),
    field("SINK", "sinkId"),
    field("ID"),
)


class SinkType(StrEnum):
    """Protocol of a sink."""

    WEBHOOK = "webhook"
    SLACK = "slack"
    TEAMS = "teams"
    GITHUB = "github"
    GITLAB = "gitlab"
    SYSLOG = "syslog"


class Severity(StrEnum):
    """Lowest severity that a router forwards."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class AuditKind(StrEnum):
    """Kinds of audit rows."""

    CHANGE = "change"
    SIGN_IN = "sign-in"
    REQUEST = "request"
    AGENT = "agent"


class DeliveryStateFilter(StrEnum):
    """State of a delivery."""

    WAITING = "waiting"
    DONE = "done"
    DEAD = "dead"


Project = Annotated[
    str | None, typer.Option(help="Id of the project (default: the whole installation).")
]


@app.command("list")
def list_news(context: typer.Context, query: Search = None, output: Output = Format.TABLE) -> None:
    """Show the newest notifications.

    \b
    Example:
      towline notifications list -q prod
    """
    page = connect(context).ask(documents.NOTIFICATIONS, first=100, q=query)["appNotifications"]
    show([edge["node"] for edge in page["edges"]], _NOTIFICATIONS, output, "id")


@app.command("sinks")
def list_sinks(context: typer.Context, query: Search = None, output: Output = Format.TABLE) -> None:
    """List notification sinks.

    \b
    Example:
      towline notifications sinks
    """
    show(every(connect(context), documents.SINKS, q=query), _SINKS, output, "name")


@app.command("set-sink")
def set_sink(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="Name of the sink.")],
    type: Annotated[SinkType, typer.Option(help="Protocol of the sink.")],
    url_file: Annotated[
        Path | None, typer.Option(help="File containing the URL; - reads standard input.")
    ] = None,
    token_file: Annotated[
        Path | None,
        typer.Option(help="File containing a token with permission to write commit statuses."),
    ] = None,
    repository: Annotated[
        str | None, typer.Option(help="URL of the repository for commit statuses.")
    ] = None,
    api_url: Annotated[str | None, typer.Option(help="API URL of the Git host.")] = None,
    audit: Annotated[
        list[AuditKind] | None,
        typer.Option(help="Also forward audit rows of this kind; repeatable."),
    ] = None,
    project: Project = None,
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
    attributes: Json = {"name": name, "type": type.name, "projectId": project}
    if audit is not None:
        attributes["audit"] = [kind.name for kind in audit]
    url, token = _text(url_file), _text(token_file)
    if type in (SinkType.GITHUB, SinkType.GITLAB):
        if repository is None:
            raise Invalid("is required for commit statuses", field="--repository")
        of = find_repository(api, repository)["id"]
        own: Json = {"commitStatus": {"repositoryId": of, "token": token, "apiUrl": api_url}}
    else:
        own = {type.value: {"url": url}}
    attributes["configuration"] = own
    made = api.ask(documents.SET_SINK, attributes=attributes)["upsertNotificationSink"]
    show(made, _SINKS, output, "name")
    if made["signingSecret"] and output is Format.TABLE:
        print(f"signing secret, shown only once: {made['signingSecret']}")


@app.command("delete-sink")
def delete_sink(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="Name of the sink.")],
    output: Output = Format.TABLE,
) -> None:
    """Delete a sink that no router uses.

    \b
    Example:
      towline notifications delete-sink ops
    """
    api = connect(context)
    gone = api.ask(documents.DELETE_SINK, id=_sink(api, name)["id"])["deleteNotificationSink"]
    show(gone, _SINKS, output, "name")


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
    sent = api.ask(documents.TEST_SINK, id=_sink(api, name)["id"])["testNotificationSink"]
    show(sent, _DELIVERIES, output, "id")


@app.command("routers")
def list_routers(
    context: typer.Context, query: Search = None, output: Output = Format.TABLE
) -> None:
    """List notification routers.

    \b
    Example:
      towline notifications routers
    """
    show(every(connect(context), documents.ROUTERS, q=query), _ROUTERS, output, "name")


@app.command("set-router")
def set_router(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="Name of the router.")],
    sink: Annotated[list[str], typer.Option(help="Name of a sink; repeatable.")],
    event: Annotated[
        list[str] | None,
        typer.Option(help="Event, such as service.failed or service.*; repeatable."),
    ] = None,
    severity: Annotated[Severity, typer.Option(help="Minimum severity.")] = Severity.INFO,
    regex: Annotated[
        str | None, typer.Option(help="Only subjects that match this regular expression.")
    ] = None,
    project: Project = None,
    output: Output = Format.TABLE,
) -> None:
    """Create or update a router.

    \b
    Example:
      towline notifications set-router alerts --sink ops --severity error
      towline notifications set-router gates --sink ops --event pipeline.gate
    """
    api = connect(context)
    attributes: Json = {
        "name": name,
        "events": event or ["*"],
        "routerSinks": [{"sinkId": _sink(api, name)["id"]} for name in sink],
        "filters": [{"regex": regex}] if regex else [],
        "severity": severity.name,
        "projectId": project,
    }
    made = api.ask(documents.SET_ROUTER, attributes=attributes)["upsertNotificationRouter"]
    show(made, _ROUTERS, output, "name")


@app.command("delete-router")
def delete_router(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="Name of the router.")],
    output: Output = Format.TABLE,
) -> None:
    """Delete a router; its sinks stay.

    \b
    Example:
      towline notifications delete-router alerts
    """
    api = connect(context)
    id = _named(api, documents.ROUTERS, "router", name)["id"]
    show(api.ask(documents.DELETE_ROUTER, id=id)["deleteNotificationRouter"], _ROUTERS, output,
         "name")  # fmt: skip


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
    asked: dict[str, Any] = {"first": 100, "state": state.name if state else None}
    page = connect(context).ask(documents.DELIVERIES, **asked)["notificationDeliveries"]
    show([edge["node"] for edge in page["edges"]], _DELIVERIES, output, "id")


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
    sent = connect(context).ask(documents.RESEND, id=id)["resendNotification"]
    show(sent, _DELIVERIES, output, "id")


def _sink(api: GraphQLApi, name: str) -> Json:
    return _named(api, documents.SINKS, "sink", name)


def _named(api: GraphQLApi, document: str, what: str, name: str) -> Json:
    found = [row for row in every(api, document, q=name) if row["name"] == name]
    if not found:
        raise NotFound(f"could not find {what} {name}")
    return found[0]


def _text(path: Path | None) -> str | None:
    """Reads a file or standard input; secrets never appear on a command line."""
    if path is None:
        return None
    if str(path) == "-":
        return typer.get_text_stream("stdin").read().strip()
    return path.read_text().strip()
