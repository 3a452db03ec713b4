"""Kinds of sinks: one module for each kind, and its line in `SINKS`.

Routing, retries and the store of sinks do not belong here.
"""

from controlplane.notifications.model.sink_kind import SinkKind
from controlplane.notifications.sinks.github import GithubSink
from controlplane.notifications.sinks.gitlab import GitlabSink
from controlplane.notifications.sinks.slack import SlackSink
from controlplane.notifications.sinks.syslog import SyslogSink
from controlplane.notifications.sinks.teams import TeamsSink
from controlplane.notifications.sinks.webhook import WebhookSink

SINKS: tuple[type[SinkKind], ...] = (
    WebhookSink,
    SlackSink,
    TeamsSink,
    GithubSink,
    GitlabSink,
    SyslogSink,
)
"""Kinds in the order of the published schema."""

BY_KIND = {sink.kind: sink for sink in SINKS}
