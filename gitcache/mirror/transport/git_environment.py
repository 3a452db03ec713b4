"""Settings and credentials of a git process, in its environment and never in its arguments.

The environment is hermetic: no configuration of the machine or the user, no prompts, and no
protocols other than http, https and ssh.
"""

import os
import shlex
import ssl
import sys
from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager
from functools import lru_cache
from pathlib import Path

from cryptography.hazmat.primitives import serialization

from core.errors import Invalid
from core.identity import RepositoryId
from core.private_keys import load_private_key
from core.remotes import Remote
from core.spec.source import GitCredentials
from gitcache.mirror.transport.connect import PROXY_VARIABLE
from gitcache.mirror.transport.route import ServerRoute
from gitcache.mirror.transport.secret_files import secret_path
from gitcache.mirror.transport.ssh_sharing import SharedSshConnections

_CONNECT = "gitcache.mirror.transport.connect"
_SETTINGS = {
    "protocol.allow": "never",
    "protocol.http.allow": "always",
    "protocol.https.allow": "always",
    "protocol.ssh.allow": "always",
    "protocol.version": "2",
    "fetch.fsckObjects": "true",
    "fetch.writeCommitGraph": "false",
    "fetch.recurseSubmodules": "false",
    "gc.auto": "0",
    "maintenance.auto": "false",
    "core.hooksPath": "/dev/null",
    "core.symlinks": "false",
    # Larger files stream to disk: the content of a small pack may not fit into memory.
    "core.bigFileThreshold": "16m",
    # Each thread has its own stack and window: one per core would use most of the memory limit.
    "pack.threads": "4",
    "pack.windowMemory": "32m",
    "pack.deltaCacheSize": "32m",
    "credential.helper": "",
    "http.followRedirects": "false",
    "http.lowSpeedLimit": "1000",
    "http.lowSpeedTime": "20",
}


def environment(home: Path, settings: Mapping[str, str] | None = None) -> dict[str, str]:
    """Returns the environment of a git process; `settings` are added to the fixed ones."""
    merged = {**_SETTINGS, **(settings or {})}
    env = {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": str(home),
        "XDG_CONFIG_HOME": str(home),
        "LC_ALL": "C",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_CONFIG_COUNT": str(len(merged)),
    }
    for number, (key, value) in enumerate(merged.items()):
        env[f"GIT_CONFIG_KEY_{number}"] = key
        env[f"GIT_CONFIG_VALUE_{number}"] = value
    return env


class GitEnvironment:
    """Builds the environment of git for a remote."""

    def __init__(
        self,
        home: Path,
        *,
        known_hosts: Path | None = None,
        ssh: str = "ssh",
        shared: SharedSshConnections | None = None,
    ) -> None:
        self._home = home
        self._known_hosts = known_hosts
        self._ssh = ssh
        self._shared = shared

    @contextmanager
    def environment(
        self, repository_id: RepositoryId, route: ServerRoute
    ) -> Generator[dict[str, str]]:
        """Provides the environment inside the `with`. Raises Invalid for an unusable private key.

        git uses only the route's addresses, even if the name resolves to others later.
        """
        with ExitStack() as secrets:
            if route.remote.is_http:
                settings = _http_settings(route, secrets)
                yield environment(self._home, settings)
                return
            env = environment(self._home)
            shared = self._shared.options(repository_id, route) if self._shared else {}
            env["GIT_SSH_COMMAND"] = self._ssh_command(route, secrets, shared)
            env["GIT_SSH_VARIANT"] = "ssh"
            if route.proxy:
                env[PROXY_VARIABLE] = route.proxy
            yield env

    def _ssh_command(
        self, route: ServerRoute, secrets: ExitStack, shared: Mapping[str, str]
    ) -> str:
        credentials = route.credentials or GitCredentials()
        repository_hosts = secrets.enter_context(secret_path(credentials.known_hosts))
        known_hosts = [str(self._known_hosts)] if self._known_hosts else []
        options = {
            "BatchMode": "yes",
            "IdentitiesOnly": "yes",
            "IdentityAgent": "none",
            "IdentityFile": secrets.enter_context(secret_path(plain_key(credentials))) or "none",
            "StrictHostKeyChecking": "yes",
            "UserKnownHostsFile": " ".join(
                [*known_hosts, *([repository_hosts] if repository_hosts else [])]
            )
            or os.devnull,
            "GlobalKnownHostsFile": os.devnull,
            "UpdateHostKeys": "no",
            "ConnectTimeout": "10",
            "ServerAliveInterval": "10",
            "HostKeyAlias": _known_hosts_name(route.remote),
            "ForwardAgent": "no",
            "ClearAllForwardings": "yes",
            "PermitLocalCommand": "no",
            **shared,
        }
        if route.proxy:
            options["ProxyCommand"] = shlex.join([sys.executable, "-I", "-m", _CONNECT, "%h", "%p"])
        else:
            options["HostName"] = route.addresses[0]
        command = [self._ssh, "-F", os.devnull]
        for name, value in options.items():
            command += ["-o", f"{name}={value}"]
        return shlex.join(command)


def _known_hosts_name(remote: Remote) -> str:
    """Formats the host as in known_hosts files (sshd(8)): with its port unless that is 22."""
    return remote.host if remote.port == 22 else f"[{remote.host}]:{remote.port}"


def _http_settings(route: ServerRoute, secrets: ExitStack) -> dict[str, str]:
    settings = {}
    remote, credentials = route.remote, route.credentials or GitCredentials()
    if route.authorization:
        settings[f"http.{remote.text}.extraHeader"] = f"Authorization: {route.authorization}"
    if route.proxy:
        settings["http.proxy"] = route.proxy
        settings["http.proxyAuthMethod"] = "basic"
    elif route.addresses and route.addresses[0] != remote.host:
        hosts = ",".join(
            f"[{address}]" if ":" in address else address for address in route.addresses
        )
        settings["http.curloptResolve"] = f"{remote.host}:{remote.port}:{hosts}"
    files = {
        "http.sslCert": credentials.client_certificate,
        "http.sslKey": credentials.client_key,
        "http.sslCAInfo": _with_system_authorities(route.authority),
    }
    for name, text in files.items():
        if path := secrets.enter_context(secret_path(text)):
            settings[name] = path
    return settings


def _with_system_authorities(added: str | None) -> str | None:
    """Joins the system's CAs and added ones: git accepts one file, which replaces the system's."""
    if added is None:
        return None
    paths = ssl.get_default_verify_paths()
    system = Path(paths.cafile or paths.openssl_cafile)
    return (system.read_text() if system.is_file() else "") + "\n" + added


@lru_cache(256)
def plain_key(credentials: GitCredentials | None) -> bytes | None:
    """Decrypts the private key for ssh; None without a key. Raises Invalid."""
    if credentials is None or credentials.private_key is None:
        return None
    try:
        key = load_private_key(credentials.private_key, credentials.passphrase)
    except Invalid as error:
        raise Invalid(f"the private key {error.message}", field="credentials") from None
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.OpenSSH,
        serialization.NoEncryption(),
    )
