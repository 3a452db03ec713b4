"""`towline clusters join` and `leave`: an agent on this machine, for a cluster of a kubeconfig."""

import json
import shlex
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit

import typer

from core.errors import Invalid, NotFound, Unavailable
from core.runtime.clock import SystemClock
from towline.cli.clusters import generated as operations
from towline.cli.clusters.find import find_cluster
from towline.cli.clusters.join_command import print_join_command
from towline.cli.lazy_import import load
from towline.cli.operator.agent import AgentOptions, start
from towline.cli.shell.confirmation import Yes, confirm_deletion
from towline.cli.shell.option_groups import OptionGroup, option_groups
from towline.cli.shell.output import say
from towline.cli.shell.session import (
    connect,
    found_or_none,
    name_value_pairs,
    parse_pairs,
    selected_target,
)
from towline.context_file import write_private

if TYPE_CHECKING:
    from towline.cluster_join import JoinedCluster
    from towline.generated_inputs import ClusterAttributes

Handle = Annotated[str, typer.Argument(help="Handle of the cluster in Towline.")]
Kubeconfig = Annotated[
    Path | None,
    typer.Option(help="Kubeconfig of an administrator (default: the last one, else kubectl's)."),
]
KubeContext = Annotated[
    str | None, typer.Option("--context", help="Context of the kubeconfig (default: as above).")
]
Data = Annotated[
    Path | None, typer.Option(help="Folder of the agent (default: ~/.towline/agents/HANDLE).")
]


@dataclass(frozen=True, slots=True)
class AgentFolder:
    """Files of an agent that `towline clusters join` starts."""

    path: Path

    @property
    def token(self) -> Path:
        return self.path / "token"

    @property
    def authority(self) -> Path:
        return self.path / "ca.crt"

    @property
    def account(self) -> Path:
        return self.path / "kubeconfig"

    @property
    def state(self) -> Path:
        return self.path / "state"

    @property
    def _source(self) -> Path:
        return self.path / "cluster.json"

    def save_source(self, cluster: "JoinedCluster") -> None:
        """Saves which context joined, so that a later command does not use another one."""
        source = {"kubeconfig": str(cluster.kubeconfig.absolute()), "context": cluster.context}
        write_private(self._source, json.dumps(source))

    def open(self, kubeconfig: Path | None, context: str | None, handle: str) -> "JoinedCluster":
        """Opens the given context, else the one that joined, else the current one of kubectl."""
        if kubeconfig is None and context is None and self._source.exists():
            source = json.loads(self._source.read_text())
            kubeconfig, context = Path(source["kubeconfig"]), source["context"]
        path = kubeconfig or load("towline.kubeconfig").default_path()
        return load("towline.cluster_join").open_cluster(path, context, handle)


class PrintOptions(OptionGroup):
    """Options that print a command instead of running an agent here."""

    print_command: Annotated[
        bool,
        typer.Option("--print", help="Print a Helm command instead, and wait for the cluster."),
    ] = False
    kubectl: Annotated[
        bool, typer.Option("--kubectl", help="Print a command of kubectl instead; with --print.")
    ] = False
    adopt: Annotated[
        bool,
        typer.Option("--adopt", help="Join a registered cluster without an agent; with --print."),
    ] = False

    def check(self) -> None:
        """Raises Invalid if an option needs another one."""
        for option, is_given in (("--kubectl", self.kubectl), ("--adopt", self.adopt)):
            if is_given and not self.print_command:
                raise Invalid("only with --print", field=option)


@option_groups
def join(
    context: typer.Context,
    handle: Handle,
    printing: PrintOptions,
    kubeconfig: Kubeconfig = None,
    kube_context: KubeContext = None,
    admin_role: Annotated[
        str,
        typer.Option(help="ClusterRole of Towline's administrators here, such as cluster-admin."),
    ] = "admin",
    service_account: Annotated[
        bool,
        typer.Option("--service-account", help="Create an account for the agent in the cluster."),
    ] = False,
    agent_role: Annotated[
        str | None,
        typer.Option(help="ClusterRole of that account; required with --service-account."),
    ] = None,
    tag: Annotated[list[str] | None, typer.Option(help="Tag, as key=value; repeatable.")] = None,
    data: Data = None,
    run: Annotated[
        bool, typer.Option("--start/--no-start", help="Run the agent, until Ctrl-C.")
    ] = True,
) -> None:
    """Register a cluster, bind the groups of users in it, and run its agent here.

    The agent uses the kubeconfig itself: a token, a client certificate, or an exec plugin, also
    below a path prefix. So it works with the kubeconfigs of kind, k3s, kubeadm and Rancher. Repeat
    the command to start the agent again. With --service-account, the agent uses an account of its
    own, whose token ends after 30 days; repeating the command renews it. No role is cluster-admin
    unless you name it.

    The agent pins the signing key of the installation, and accepts only bundles and orders that
    this key has signed. With --print, the agent runs in the cluster, which it registers itself. A
    private CA of the control plane is part of the printed command.

    \b
    Example:
      towline clusters join dev --admin-role cluster-admin --context kind-dev
      towline clusters join prod-eu --print
      towline clusters join prod-eu --print --kubectl
    """
    printing.check()
    if printing.print_command:
        return print_join_command(
            context, handle, admin_role, tag, kubectl=printing.kubectl, adopt=printing.adopt
        )
    if service_account is (agent_role is None):
        raise Invalid("use --service-account and --agent-role together", field="--agent-role")
    folder = _agent_folder(handle, data)
    cluster = folder.open(kubeconfig, kube_context, handle)
    # Refuses what the agent refuses, for example a server without TLS, before it registers.
    read_access = load("syncagent.kube.access").from_kubeconfig
    read_access(cluster.kubeconfig, cluster.context, SystemClock())
    print(f"found: Kubernetes {cluster.version()} at {cluster.server} (context {cluster.context})")
    cluster.check_roles({role for role in (admin_role, agent_role) if role})
    cluster_id = _register_cluster(context, handle, folder, tag)
    folder.save_source(cluster)
    for line in cluster.bind_groups(admin_role):
        print(line)
    if agent_role:
        _create_account(cluster, agent_role, folder.account)
    installation = operations.installation(connect(context))
    print(f"pinned: signing key {installation['signingKeyId']}")
    options = AgentOptions(
        url=f"{urlsplit(selected_target(context).url).hostname}:{installation['agentsPort']}",
        token_file=folder.token,
        ca_file=folder.authority if folder.authority.exists() else None,
        kubeconfig=folder.account if service_account else cluster.kubeconfig,
        context=None if service_account else cluster.context,
        data=folder.state,
        signing_key=installation["signingKeyId"],
        cluster_id=cluster_id,
    )
    flags = [(f"--{name.replace('_', '-')}", value) for name, value in vars(options).items()]
    words = [word for flag, value in flags if value is not None for word in (flag, str(value))]
    print(f"{'starting' if run else 'start it with'}: towline agent", shlex.join(words), flush=True)
    if run:
        start(options)


def leave(
    context: typer.Context,
    handle: Handle,
    kubeconfig: Kubeconfig = None,
    kube_context: KubeContext = None,
    data: Data = None,
    yes: Yes = False,
) -> None:
    """Remove what `join` created: objects in the cluster, the agent's folder and the context.

    First delete the cluster with `towline clusters delete`, and stop its agent. If the cluster does
    not answer any more, the command reports this and removes the rest.

    \b
    Example:
      towline clusters leave dev
    """
    folder = _agent_folder(handle, data)
    if not folder.path.exists() and kubeconfig is None and kube_context is None:
        raise NotFound(f"{folder.path} does not exist: {handle} did not join with this folder")
    module = load("towline.kubeconfig")
    problem = ""
    try:
        cluster = folder.open(kubeconfig, kube_context, handle)
        objects = cluster.objects()
    except (Unavailable, Invalid) as error:
        if kubeconfig is not None or kube_context is not None:
            raise
        cluster, objects, problem = None, [], error.message
    if found_or_none(lambda: find_cluster(connect(context), handle)) is not None:
        raise Invalid(f"cluster {handle} is registered; run `towline clusters delete {handle}`")
    if problem:
        say(f"kept: objects in the cluster of {handle}, if it still exists: {problem}")
    path = module.default_path()

    def along() -> list[str]:
        return [*objects, str(folder.path), f"context towline-{handle} of {path}"]

    confirm_deletion(f"everything that joining {handle} created", yes=yes, along=along)
    for name in cluster.delete_objects() if cluster else ():
        print(f"deleted: {name}")
    if module.remove_from_file(path, handle):
        print(f"deleted: context towline-{handle} of {path}")
    if folder.path.exists():
        shutil.rmtree(folder.path)
        print(f"deleted: {folder.path}")


def _create_account(cluster: "JoinedCluster", role: str, kubeconfig: Path) -> None:
    """Creates the agent's account in the cluster, and a kubeconfig with a new token of it."""
    for line in cluster.create_account(role):
        print(line)
    end = cluster.create_kubeconfig(kubeconfig)
    print(f"saved: kubeconfig {kubeconfig}; its token expires at {end:%Y-%m-%d %H:%M} UTC")


def _register_cluster(
    context: typer.Context, handle: str, folder: AgentFolder, tags: list[str] | None
) -> str:
    """Registers the cluster unless the folder has its token; returns its id. Invalid: it was
    deleted since.
    """
    api = connect(context)
    if folder.token.exists():
        existing = found_or_none(lambda: find_cluster(api, handle))
        if existing is None:
            raise Invalid(
                f"cluster {handle} is not registered, but {folder.token} exists; "
                f"run `towline clusters leave {handle}` first"
            )
        cluster_id = existing["id"]
        print(f"kept: cluster {handle}, with the deploy token in {folder.token}")
    else:
        attributes: ClusterAttributes = {
            "name": handle,
            "handle": handle,
            "tags": name_value_pairs(parse_pairs(tags, "--tag")),
        }
        created = operations.create_cluster(api, attributes)
        cluster_id = created["id"]
        write_private(folder.token, f"{created['deployToken']}\n")
        print(f"registered: cluster {handle}")
        print(f"saved: its deploy token in {folder.token}")
    if authority := selected_target(context).ca:
        write_private(folder.authority, authority)
    return cluster_id


def _agent_folder(handle: str, folder: Path | None) -> AgentFolder:
    if not handle or "/" in handle or handle.startswith("."):
        raise Invalid(f"{handle!r} is not the handle of a cluster")
    return AgentFolder((folder or Path.home() / ".towline" / "agents" / handle).absolute())
