"""`towline fleet …`: state at a point in time, changes between two, delivery metrics."""

from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer

from core.errors import Invalid
from core.runtime.now import utc_now
from towline.cli.clusters.find import find_cluster_id
from towline.cli.projects.find import find_project_id
from towline.cli.reports import generated as operations
from towline.cli.reports.generated import (
    CommitTraceStragglers,
    DeliveryByLabelByLabel,
    DeliveryReport,
    FleetAtClustersServices,
    FleetChanges,
)
from towline.cli.repositories.find import find_folder_repository
from towline.cli.shell.formats import Format, Output
from towline.cli.shell.output import Column, field, short, show
from towline.cli.shell.selectors import Selector
from towline.cli.shell.session import connect

app = typer.Typer(no_args_is_help=True, help="State of the whole fleet, now and in the past.")

Cluster = Annotated[str | None, typer.Option(help="Filter by cluster, by handle or id.")]
Moment = Annotated[
    str, typer.Argument(help="A time such as 2026-01-31T12:00:00Z, or an age such as 6h.")
]


class _ServiceAt(FleetAtClustersServices):
    cluster: str | None


_AT: tuple[Column[_ServiceAt], ...] = (
    field("CLUSTER"),
    field("SERVICE"),
    field("STATE", "statusCode"),
    Column("COMMIT", lambda row: short(row["sha"])),
    field("SINCE", "desiredAt"),
)
_CHANGES: tuple[Column[FleetChanges], ...] = (
    field("CLUSTER"),
    field("SERVICE"),
    field("CHANGE", "kind"),
    Column("COMMIT", lambda row: f"{short(row['shaBefore'])} -> {short(row['shaAfter'])}"),
    Column("STATE", lambda row: f"{row['statusBefore'] or '-'} -> {row['statusAfter'] or '-'}"),
)
_FIGURES: tuple[Column[DeliveryReport | DeliveryByLabelByLabel], ...] = (
    Column("PER DAY", lambda row: f"{row['deploymentsPerDay']:.2f}"),
    Column("LEAD TIME", lambda row: _p50_and_p90(row["leadP50"], row["leadP90"])),
    Column("FAILED", lambda row: _percentage(row["total"]["failureRate"])),
    Column("TIME TO RESTORE", lambda row: _p50_and_p90(row["restoreP50"], row["restoreP90"])),
    Column("DEPLOYMENTS", lambda row: row["total"]["begun"]),
)
_STRAGGLERS: tuple[Column[CommitTraceStragglers], ...] = (
    field("CLUSTER"),
    field("SERVICE"),
    field("STATE", "standing"),
    field("SINCE"),
    field("REASON"),
)
_UNITS = {"m": 60, "h": 3_600, "d": 86_400}


@app.command("at")
def fleet_at(
    context: typer.Context, moment: Moment, cluster: Cluster = None, output: Output = Format.TABLE
) -> None:
    """Show the commit and the state of each service at a point in time.

    \b
    Example:
      towline fleet at 6h
    """
    api = connect(context)
    state = operations.fleet_at(api, time_of(moment), cluster_id=find_cluster_id(api, cluster))
    rows: list[_ServiceAt] = [
        {**service, "cluster": cluster_state["cluster"]}
        for cluster_state in state["clusters"]
        for service in cluster_state["services"]
    ]
    show(rows, _AT, output, "serviceId")


@app.command("changes")
def fleet_changes(
    context: typer.Context,
    then: Moment,
    now: Annotated[str, typer.Argument(help="The later time (default: now).")] = "0m",
    cluster: Cluster = None,
    output: Output = Format.TABLE,
) -> None:
    """Show the differences between two points in time.

    \b
    Example:
      towline fleet changes 1d
    """
    api = connect(context)
    cluster_id = find_cluster_id(api, cluster)
    changes = operations.fleet_changes(api, time_of(then), time_of(now), cluster_id=cluster_id)
    show(changes, _CHANGES, output, "serviceId")


@app.command("metrics")
def fleet_metrics(
    context: typer.Context,
    since: Annotated[str, typer.Argument(help="Start of the period, such as 30d.")] = "30d",
    cluster: Cluster = None,
    project: Annotated[str | None, typer.Option(help="Filter by project, by name or id.")] = None,
    selector: Selector = None,
    by: Annotated[
        str | None, typer.Option(help="Show a row for each value of this label, such as team.")
    ] = None,
    output: Output = Format.TABLE,
) -> None:
    """Show the four DORA metrics: deployment frequency, lead time, failure rate, time to restore.

    \b
    Example:
      towline fleet metrics 90d
      towline fleet metrics 30d --by team
      towline fleet metrics 30d -l team=shop --project payments
    """
    api, start = connect(context), time_of(since)
    cluster_id, project_id = find_cluster_id(api, cluster), find_project_id(api, project)
    if by is None:
        report = operations.delivery_report(
            api, start, cluster_id=cluster_id, project_id=project_id, labels=selector
        )
        return show(report, _FIGURES, output, "since")
    groups = operations.delivery_by_label(
        api, start, by, cluster_id=cluster_id, project_id=project_id, labels=selector
    )
    columns: list[Column[DeliveryByLabelByLabel]] = [
        Column(by.upper(), lambda row: row["value"] or "-"),
        *_FIGURES,
    ]
    show(groups["byLabel"], columns, output, "value")


@app.command("commit")
def fleet_commit(
    context: typer.Context,
    sha: Annotated[str, typer.Argument(help="Commit SHA, or at least its first 7 characters.")],
    repo: Annotated[
        str | None, typer.Option(help="Repository of the commit, by URL or id.")
    ] = None,
    output: Output = Format.TABLE,
) -> None:
    """Show where a commit is live, and what blocks it elsewhere.

    \b
    Example:
      towline fleet commit 1f2e3d4 --repo https://git.example.org/shop.git
    """
    api = connect(context)
    repository = find_folder_repository(api, repo) if repo else None
    trace = operations.commit_trace(api, sha, repository_id=repository)
    if not output.is_table:
        show(trace, (), output, "sha")
        return
    print(f"commit {short(trace['sha'])}: live in {trace['live']} of {trace['services']} services")
    for stage in trace["stages"]:
        times = f"p50 {stage['p50']:.1f} s, p99 {stage['p99']:.1f} s"
        print(f"  {stage['stage']:<10} {times}, {stage['count']} services")
    if trace["stragglers"]:
        print()
        show(trace["stragglers"], _STRAGGLERS, output, "serviceId")


def time_of(text: str) -> str:
    """Converts a time or an age to RFC 3339. Raises Invalid."""
    number, unit = text[:-1], text[-1:]
    if number.isdecimal() and unit in _UNITS and len(number) < 6:
        ago = timedelta(seconds=_UNITS[unit] * int(number))
        return (utc_now() - ago).isoformat()
    try:
        parsed_time = datetime.fromisoformat(text)
    except ValueError:
        raise Invalid(
            f"invalid time {text[:40]!r}; expected a form such as 2026-01-31T12:00:00Z or 6h"
        ) from None
    return (parsed_time if parsed_time.tzinfo else parsed_time.replace(tzinfo=UTC)).isoformat()


def _p50_and_p90(p50: float | None, p90: float | None) -> str:
    return "-" if p50 is None else f"{p50:.0f} s, p90 {p90:.0f} s"


def _percentage(fraction: float | None) -> str:
    return "-" if fraction is None else f"{fraction:.1%}"
