"""Commands that change the named services, or all that match: sync, pause, roll back, and back."""

from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, NamedTuple

import typer

from core.errors import Invalid, NotFound, TowlineError
from towline.cli.clusters.find import find_cluster_id
from towline.cli.manifests.managers import warn_of_managers
from towline.cli.services import generated as operations
from towline.cli.services.columns import COLUMNS
from towline.cli.services.find import find_service, label
from towline.cli.services.generated import Revision, Service
from towline.cli.services.reasons import drift_text
from towline.cli.services.selective_sync import one_service, sync_resources
from towline.cli.services.sync_waiting import check_waitable, describe_start, wait_for_sync
from towline.cli.shell.confirmation import confirm_changes
from towline.cli.shell.formats import Format, Output
from towline.cli.shell.option_groups import OptionGroup, option_groups
from towline.cli.shell.output import Row, count, field, say, short, show
from towline.cli.shell.selectors import Selector
from towline.cli.shell.session import connect
from towline.cli.shell.timeouts import WithWait, timeout_of
from towline.operations import GraphQLApi

Names = Annotated[
    list[str] | None,
    typer.Argument(metavar="CLUSTER/NAME", help="Services, by cluster and name, or by id."),
]
_PLAN = (field("SERVICE"), field("STATUS"), field("EFFECT"))


class Effect(NamedTuple):
    """Effect of a change on a service; `is_change`: false if the service stays as it is."""

    text: str
    is_change: bool = True


class Change(NamedTuple):
    """A change of services: its verb, its effect on a service, its request, and its end."""

    verb: str
    effect: Callable[[GraphQLApi, Service], Effect]
    run: Callable[[GraphQLApi, Service], Service]
    follow: Callable[[GraphQLApi, Service], Service] | None = None
    """Waits for the end of the change. The service is the result of `run`."""


class Waiting(OptionGroup):
    """Options that wait for the end of a change."""

    wait: Annotated[
        bool, typer.Option("--wait", help="Wait until the agent has synced and all is healthy.")
    ] = False
    timeout: WithWait = None

    @property
    def limit(self) -> int:
        """The seconds to wait. Raises Invalid for a timeout without --wait."""
        return timeout_of(self.timeout, wait=self.wait)


class Selection(OptionGroup):
    """Options that select services instead of names, and ask for the effect."""

    selector: Selector = None
    cluster: Annotated[str | None, typer.Option(help="All services of this cluster.")] = None
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the effect on each service; change nothing.")
    ] = False
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Change selected services without asking.")
    ] = False

    @property
    def is_given(self) -> bool:
        return self.selector is not None or self.cluster is not None

    def find(self, api: GraphQLApi) -> Iterator[Service]:
        """Finds the services that match all options."""
        cluster_id = find_cluster_id(api, self.cluster)
        return operations.services(api, labels=self.selector, cluster_id=cluster_id)


@option_groups
def sync(
    context: typer.Context,
    selection: Selection,
    waiting: Waiting,
    service: Names = None,
    resource: Annotated[
        list[str] | None,
        typer.Option(
            help="Sync only this object, as kind/namespace/name; repeatable. Hooks do not run."
        ),
    ] = None,
    prune: Annotated[
        bool,
        typer.Option(
            "--prune", help="With --resource: delete objects that are no longer in the manifests."
        ),
    ] = False,
    output: Output = Format.TABLE,
) -> None:
    """Sync now: check for new commits, and compare with the cluster.

    With --resource, wait for the agent, and show the result. With --wait: exit code 1 if the
    service fails and a retry cannot help, 6 on timeout; 1 if one of several is not healthy.

    \b
    Example:
      towline services sync dev/web --wait
      towline services sync -l team=shop --dry-run
      towline services sync dev/web --resource Deployment/shop/web
    """
    if resource:
        if selection.is_given or selection.dry_run:
            raise Invalid("--resource cannot be used with -l, --cluster or --dry-run")
        if waiting.wait:
            raise Invalid("--resource waits by itself; leave out --wait")
        api, name = connect(context), one_service(service)
        return sync_resources(api, name, resource, prune=prune, output=output)
    if prune:
        raise Invalid("--prune needs --resource: a sync of a whole service prunes by itself")
    limit = waiting.limit

    def run(api: GraphQLApi, found: Service) -> Service:
        if waiting.wait:
            check_waitable(found)
        synced = operations.sync_service(api, found["id"])
        if start := describe_start(synced):
            say(start)
        return synced

    def follow(api: GraphQLApi, synced: Service) -> Service:
        return wait_for_sync(api, synced, limit)

    change = Change("Sync", _sync_effect, run, follow if waiting.wait else None)
    _change_services(context, service, selection, change, output)


@option_groups
def pause(
    context: typer.Context,
    selection: Selection,
    service: Names = None,
    output: Output = Format.TABLE,
) -> None:
    """Pause services: nothing changes them in the cluster until they resume.

    \b
    Example:
      towline services pause -l team=shop
    """
    _change_services(context, service, selection, _pause_change("Pause", paused=True), output)


@option_groups
def resume(
    context: typer.Context,
    selection: Selection,
    service: Names = None,
    output: Output = Format.TABLE,
) -> None:
    """Resume paused services, so that they follow Git again.

    \b
    Example:
      towline services resume --cluster dev --yes
    """
    _change_services(context, service, selection, _pause_change("Resume", paused=False), output)


@option_groups
def roll_back(
    context: typer.Context,
    selection: Selection,
    service: Names = None,
    to: Annotated[
        str | None, typer.Option(help="Revision id or commit (default: the previous revision).")
    ] = None,
    output: Output = Format.TABLE,
) -> None:
    """Roll back to an earlier revision, and stay there until `services unpin`.

    \b
    Example:
      towline services rollback prod-eu/web --to 3f2c1ab
      towline services rollback -l release=42 --dry-run
    """

    def effect(api: GraphQLApi, service: Service) -> Effect:
        try:
            revision = _revision(api, service, to)
        except NotFound as error:
            return Effect(error.message.removeprefix(f"{label(service)} "), is_change=False)
        return Effect(f"{short(service['sha'])} → {short(revision['sha'])} {revision['subject']}")

    def run(api: GraphQLApi, service: Service) -> Service:
        return operations.roll_back_service(api, service["id"], _revision(api, service, to)["id"])

    _change_services(context, service, selection, Change("Roll back", effect, run), output)


@option_groups
def unpin(
    context: typer.Context,
    selection: Selection,
    service: Names = None,
    output: Output = Format.TABLE,
) -> None:
    """Unpin a service after a rollback, so that it follows its ref again.

    \b
    Example:
      towline services unpin prod-eu/web
    """

    def effect(_: GraphQLApi, service: Service) -> Effect:
        if service["pinnedSha"] is None:
            return Effect("is not pinned", is_change=False)
        return Effect(f"{short(service['pinnedSha'])} → newest commit of {service['follows']}")

    change = Change("Unpin", effect, lambda api, found: operations.unpin_service(api, found["id"]))
    _change_services(context, service, selection, change, output)


def _change_services(
    context: typer.Context,
    names: Sequence[str] | None,
    selection: Selection,
    change: Change,
    output: Format,
) -> None:
    """Changes the named services at once; selected ones after their plan and a question.

    Ends with exit code 1 if a change fails, after the others. Invalid: names and a selection, or
    neither.
    """
    if selection.is_given is bool(names):
        raise Invalid("specify services by CLUSTER/NAME, or select them with -l or --cluster")
    api = connect(context)
    services = [find_service(api, name) for name in names] if names else list(selection.find(api))
    if selection.dry_run:
        show([_plan_row(of, change.effect(api, of)) for of in services], _PLAN, output, "service")
    elif names and len(services) == 1:
        changed = change.run(api, services[0])
        show(change.follow(api, changed) if change.follow else changed, COLUMNS, output, label)
    else:
        selected = services if names else _confirm_selected(api, change, services, selection)
        _run_all(api, change, selected, output)


def _plan_row(service: Service, effect: Effect) -> Row:
    planned = {"service": label(service), "status": service["status"]}
    return {**planned, "effect": effect.text, "changes": effect.is_change}


def _confirm_selected(
    api: GraphQLApi, change: Change, services: Sequence[Service], selection: Selection
) -> list[Service]:
    """Returns the services that would change, after a question."""
    effects = [(service, change.effect(api, service)) for service in services]
    changing = [service for service, effect in effects if effect.is_change]
    if changing:
        confirm_changes(
            f"{change.verb} {count(len(changing), 'service')}",
            [f"{label(service)}: {effect.text}" for service, effect in effects],
            yes=selection.yes,
        )
    return changing


def _run_all(api: GraphQLApi, change: Change, services: Sequence[Service], output: Format) -> None:
    changed = _attempt_each(api, change.run, services)
    if change.follow:
        # All changes have begun, so the waits overlap.
        changed = _attempt_each(api, change.follow, changed)
    show(changed, COLUMNS, output, label)
    if failed := len(services) - len(changed):
        say(f"{failed} of {count(len(services), 'service')} failed")
        raise typer.Exit(1)


def _attempt_each(
    api: GraphQLApi, attempt: Callable[[GraphQLApi, Service], Service], services: Sequence[Service]
) -> list[Service]:
    """Returns the changed services, without those that failed, whose errors it says."""
    done = []
    for service in services:
        try:
            done.append(attempt(api, service))
        except TowlineError as error:
            say(f"{label(service)}: {error.message}")
    return done


def _sync_effect(_: GraphQLApi, service: Service) -> Effect:
    if service["paused"]:
        return Effect("is paused: resume it first", is_change=False)
    behind = service["commitsBehind"]
    parts = [f"{count(behind, 'commit')} behind {service['follows']}"] if behind else []
    parts += [drift_text(service["drifted"])] if service["drifted"] else []
    return Effect("; ".join(parts) or "compares Git with the cluster; no difference is known")


def _pause_change(verb: str, *, paused: bool) -> Change:
    state = "paused" if paused else "not paused"

    def effect(_: GraphQLApi, service: Service) -> Effect:
        if service["paused"] is paused:
            return Effect(f"is {state} already", is_change=False)
        return Effect("takes no changes until it resumes" if paused else "follows Git again")

    def run(api: GraphQLApi, service: Service) -> Service:
        changed = operations.update_service(api, service["id"], {"paused": paused})
        warn_of_managers(api, "Service", label(service), ["paused"])
        return changed

    return Change(verb, effect, run)


def _revision(api: GraphQLApi, service: Service, revision_name: str | None) -> Revision:
    rows = list(operations.revisions(api, service["id"]))
    current = service["revision"]["id"] if service["revision"] else None
    if revision_name is None:
        earlier = [
            row for row in rows if row["id"] != current and row["digest"] != service["digest"]
        ]
    else:
        earlier = [
            row
            for row in rows
            if row["id"] == revision_name or row["sha"].startswith(revision_name)
        ]
    if not earlier:
        subject = f"revision {revision_name}" if revision_name else "earlier revision"
        raise NotFound(f"{label(service)} has no {subject}")
    return earlier[0]
