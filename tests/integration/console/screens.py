"""All screens of the console, which the documentation shows and tests visit."""

import re
from dataclasses import dataclass
from pathlib import PurePosixPath

from tests.integration.console.conftest import ROOT
from tests.integration.console.pictures import MAX_SHARE

ROUTES = ROOT / "console" / "src" / "app" / "pages.ts"
_PATH = re.compile(r'^ +(?:\{ )?path: (?:"([^"]+)"|INBOX),', re.MULTILINE)
_INBOX = re.compile(r'INBOX = "([^"]+)"')


@dataclass(frozen=True, slots=True)
class Screen:
    """A screen, whose path names ids of the furnished control plane in braces."""

    name: str
    path: str
    max_share: float = MAX_SHARE
    """Share of a picture that may differ from another run."""

    @property
    def segments(self) -> tuple[str, ...]:
        """Segments of the path without its query."""
        return PurePosixPath(self.path.partition("?")[0]).parts


# The metrics of a cluster say only after a while which deprecated APIs its own controllers use.
# Delivery is counted by day, so it differs after midnight.
_MAX_SHARES = dict.fromkeys(
    ("cluster-apis", "delivery", "delivery-timeline", "delivery-groups"), 0.06
)
REDIRECTS = {"/views/:id"}
"""Routes that only lead to another page."""
SCREENS = tuple(
    Screen(name, path, _MAX_SHARES.get(name, MAX_SHARE))
    for name, path in {
        "inbox": "/inbox",
        "fleet": "/?group=tag:region",
        "services": "/services",
        "services-graph": "/services?view=graph&service=cluster-eu-west-1-orders",
        "service-new": "/services/new",
        "service": "/services/{service}",
        "service-objects": "/services/{service}?tab=objects",
        "service-topology": "/services/{service}?tab=topology&object={deployment}",
        "service-timeline": "/services/{service}?tab=timeline",
        "service-history": "/services/{service}?tab=history",
        "service-provenance": "/services/{service}?tab=provenance",
        "service-preview": "/services/{service}?tab=preview&ref=main",
        "service-values": "/services/{service}?tab=values",
        "service-events": "/services/{service}?tab=events",
        "service-logs": "/services/{service}?tab=logs",
        "service-maintenance": "/services/{service}?tab=maintenance",
        "service-settings": "/services/{service}?tab=settings",
        "object": "/objects/{deployment}",
        "object-drift": "/objects/{drifted}?tab=drift",
        "object-owners": "/objects/{deployment}?tab=owners",
        "object-events": "/objects/{deployment}?tab=events",
        "object-logs": "/objects/{pod}?tab=logs",
        "object-shell": "/objects/{pod}?tab=shell",
        "clusters": "/clusters",
        "join": "/clusters/new",
        "cluster-groups": "/clusters/groups?open={cluster_group}",
        "cluster-sources": "/clusters/sources",
        "cluster": "/clusters/dev",
        "cluster-sessions": "/clusters/dev?tab=sessions",
        "cluster-jobs": "/clusters/dev?tab=jobs",
        "cluster-apis": "/clusters/dev?tab=apis",
        "cluster-maintenance": "/clusters/dev?tab=maintenance",
        "pipelines": "/pipelines",
        "pipelines-list": "/pipelines?view=list",
        "pipeline-new": "/pipelines/new",
        "pipeline": "/pipelines/{pipeline}",
        "pipeline-graph": "/pipelines/{pipeline}?tab=graph",
        "pipeline-releases": "/pipelines/{pipeline}?tab=releases",
        "pipeline-history": "/pipelines/{pipeline}?tab=history",
        "pipeline-edit": "/pipelines/{pipeline}/edit",
        "gate": "/pipelines/{pipeline}/gates/{gate}",
        "revisions": "/pipelines/revisions",
        "search": "/search?q=kind%3ADeployment&order=service",
        "repositories": "/repositories?new=1",
        "charts": "/repositories/charts",
        "artifacts": "/repositories/artifacts",
        "generators": "/generators?open={global_service}",
        "generators-sets": "/generators?tab=sets",
        "generators-namespaces": "/generators?tab=namespaces",
        "secrets": "/secrets?new=1",
        "secret": "/secrets/{secret}?set=1",
        "contexts": "/contexts?edit=network",
        "configuration": "/configuration",
        "notifications": "/notifications",
        "notifications-rules": "/notifications?tab=rules&open={rule}",
        "notifications-sinks": "/notifications?tab=sinks",
        "notifications-deliveries": "/notifications?tab=deliveries",
        "delivery": "/reports?span=7",
        "delivery-timeline": "/reports?tab=timeline&span=7",
        "delivery-groups": "/reports?tab=breakdown",
        "audit": "/audit?kind=CHANGE&q=create",
        "views": "/views",
        "recording": "/recordings/{recording}",
        "access": "/access",
        "access-requests": "/access?tab=requests",
        "access-kubectl": "/access?tab=kubeconfig",
        "access-tokens": "/access?tab=tokens",
        "access-sessions": "/access?tab=sessions",
        "access-who": "/access?tab=who",
        "access-roles": "/access?tab=roles&role=*",
        "access-fences": "/access?tab=fences&project=payments",
        "people": "/people?open={account}",
        "people-groups": "/people?tab=groups&open={group}",
        "projects": "/projects",
        "installation": "/installation",
        "nowhere": "/no/such/page",
    }.items()
)


NAMES = ("set-up", "sign-in", *(screen.name for screen in SCREENS))
"""Names of all screens, with those before the sign-in."""


def routes(source: str) -> list[str]:
    """Returns the paths of all routes in the source of the console."""
    inbox = _INBOX.search(source)
    return [path or (inbox[1] if inbox else "") for path in _PATH.findall(source)]


def route_of(screen: Screen, paths: list[str]) -> str:
    """Returns the first route that shows a screen, as the console does. Empty: there is none."""
    return next((path for path in paths if _leads_to(path, screen)), "")


def _leads_to(route: str, screen: Screen) -> bool:
    parts = PurePosixPath(route).parts
    return len(parts) == len(screen.segments) and all(
        part.startswith(":") or part == segment
        for part, segment in zip(parts, screen.segments, strict=True)
    )
