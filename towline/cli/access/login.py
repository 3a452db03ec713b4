"""`towline login`, `logout`, `whoami` and `kubeconfig`."""

import platform
import sys
from getpass import getpass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit

import typer

from core.errors import Invalid
from towline.cli.access import generated as operations
from towline.cli.clusters.find import find_cluster
from towline.cli.clusters.generated import clusters, installation
from towline.cli.lazy_import import load
from towline.cli.shell.formats import Format, Output
from towline.cli.shell.output import Column, count, field, say, show
from towline.cli.shell.session import connect, global_flags, selected_target
from towline.context_file import write
from towline.contexts import ControlPlaneTarget, config_path, normal_url, read, resolve

if TYPE_CHECKING:
    from towline.operations import GraphQLApi

_USER = (
    field("EMAIL"),
    field("NAME"),
    field("ROLE"),
)


def login(
    context: typer.Context,
    url: Annotated[str, typer.Argument(help="URL of the control plane.")],
    token_stdin: Annotated[bool, typer.Option(help="Read the token from standard input.")] = False,
    ca_file: Annotated[
        Path | None,
        typer.Option(help="CA certificate to trust (PEM file); saved with the context."),
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="Name of the context (default: the host).")
    ] = None,
    web: Annotated[bool, typer.Option(help="Sign in with the browser on this machine.")] = False,
    device: Annotated[
        bool, typer.Option(help="Sign in with a browser on another machine.")
    ] = False,
) -> None:
    """Sign in and save the token for later commands and for kubectl.

    \b
    Example:
      towline login https://towline.example.org --web
      towline login https://127.0.0.1:8443 --ca-file ca.crt --token-stdin < admin.token
    """
    flags = global_flags(context)
    flags = flags._replace(url=normal_url(url), ca_file=ca_file or flags.ca_file)
    if token_stdin + web + device > 1:
        raise Invalid("choose one of --token-stdin, --web and --device")
    target = resolve(flags, {})
    if web or device:
        token = sign_in_by_device(target, open_browser=web)
    else:
        token = _read_token() if token_stdin else _ask_token()
    target = target._replace(token=token)
    user = operations.me(load("towline.client").GraphQLClient(target))
    path = config_path(flags)
    write(path, read(path).with_target(name or urlsplit(target.url).netloc, target))
    say(f"signed in to {target.url} as {user['email']}; next: towline clusters list")


def _read_token() -> str:
    token = sys.stdin.readline().strip()
    if not token:
        raise Invalid("standard input has no token on its first line")
    return token


def logout(
    context: typer.Context,
    name: Annotated[str | None, typer.Argument(help="Context (default: the current one).")] = None,
) -> None:
    """Remove a saved token; it stays valid until `towline tokens delete`.

    \b
    Example:
      towline logout
    """
    flags = global_flags(context)
    path = config_path(flags)
    contexts = read(path)
    context_name = name or flags.context or contexts.current
    write(path, contexts.without(context_name))
    say(f"signed out of {context_name}")


def whoami(context: typer.Context, output: Output = Format.TABLE) -> None:
    """Show the signed-in user, with groups and roles.

    \b
    Example:
      towline whoami
    """
    profile = operations.who_am_i(connect(context))
    groups = [group["name"] for group in profile["myGroups"]]
    me = {**profile["me"], "groups": groups, "access": profile["myAccess"]}
    columns = (*_USER, Column("GROUPS", lambda _: ",".join(groups)))
    show(me, columns, output, "email")
    if output.is_table:
        for grant in profile["myAccess"]:
            say(f"{grant['role']} in {grant['place']}: {grant['why']}")


def kubeconfig(
    context: typer.Context,
    handles: Annotated[
        list[str] | None, typer.Argument(metavar="[HANDLE]...", help="Handles of clusters.")
    ] = None,
    every_cluster: Annotated[bool, typer.Option("--all", help="All clusters.")] = False,
    merge: Annotated[bool, typer.Option(help="Merge into the kubeconfig of kubectl.")] = False,
    embed_token: Annotated[
        bool, typer.Option(help="Embed the token in the file instead of the login plugin.")
    ] = False,
    id_token_command: Annotated[
        str,
        typer.Option(
            help="Credential plugin of kubectl that prints ID tokens, instead of the login plugin. "
            "An ID token also proves your identity to clusters that require it."
        ),
    ] = "",
) -> None:
    """Print a kubeconfig for clusters, or merge it into kubectl's file.

    \b
    Example:
      towline kubeconfig --all --merge
      kubectl --context towline-dev get pods
      towline kubeconfig dev --id-token-command "kubectl oidc-login get-token ..."
    """
    if bool(handles) == every_cluster:
        raise Invalid("specify clusters, or use --all")
    module = load("towline.kubeconfig")
    target = selected_target(context)
    if embed_token and id_token_command:
        raise Invalid("use either --embed-token or --id-token-command")
    api = connect(context)
    config = module.build(
        target,
        _handles(api, handles),
        embed_token=embed_token,
        config=global_flags(context).config,
        id_token_command=id_token_command,
        cluster_domain=installation(api)["clusterDomain"] or "",
    )
    if not merge:
        print(module.dump(config), end="")
        return
    path = module.default_path()
    module.merge_into_file(path, config)
    say(f"merged {count(len(config['contexts']), 'context')} into {path}")


def sign_in_by_device(target: ControlPlaneTarget, *, open_browser: bool) -> str:
    """Returns a token after a user approves this device. Unauthenticated: not approved."""

    def show(page: str, code: str) -> None:
        say(f"open {page} and check that it shows the code {code}")
        if open_browser:
            load("webbrowser").open(page)

    client = f"towline on {platform.node()}"[:80]
    device = load("towline.device_grant").DeviceGrant(target, client=client, scope="")
    return device.sign_in(show).token


def _handles(api: "GraphQLApi", handles: list[str] | None) -> list[str]:
    if not handles:
        return [cluster["handle"] for cluster in clusters(api)]
    return [find_cluster(api, handle)["handle"] for handle in handles]


def _ask_token() -> str:
    if not sys.stdin.isatty():
        raise Invalid("cannot prompt for a token without a terminal; use --token-stdin")
    return getpass("Token: ").strip()
