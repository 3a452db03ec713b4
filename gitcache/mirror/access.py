"""How a git process reaches one server: settings and credentials as environment, never as argv.

The environment is hermetic: no configuration of the machine or the user, no prompts, no
protocol but http, https and ssh.
"""

import base64
import os
import shlex
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization

from fleet.errors import Invalid
from fleet.remotes import Remote
from fleet.source import GitCredentials

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
    "credential.helper": "",
    "http.followRedirects": "false",
    "http.lowSpeedLimit": "1000",
    "http.lowSpeedTime": "20",
}


def environment(home: Path, settings: Mapping[str, str] | None = None) -> dict[str, str]:
    """The whole environment of a git process; `settings` are added to the fixed ones."""
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


def authorization(credentials: GitCredentials | None) -> str | None:
    """The value of the Authorization header (RFC 7617) for http and https."""
    if credentials is None or credentials.password is None:
        return None
    pair = f"{credentials.username or 'git'}:{credentials.password}"
    return "Basic " + base64.b64encode(pair.encode()).decode()


def secrets_of(credentials: GitCredentials | None) -> list[str]:
    """Texts that must never be seen in a message."""
    if credentials is None:
        return []
    header = authorization(credentials) or ""
    texts = [credentials.password, credentials.passphrase, header.removeprefix("Basic ")]
    return [text for text in texts if text]


class Access:
    """Builds the environment for talking to a remote."""

    def __init__(self, home: Path, *, known_hosts: Path | None = None, ssh: str = "ssh") -> None:
        self._home = home
        self._known_hosts = known_hosts
        self._ssh = ssh

    @contextmanager
    def environment(
        self, remote: Remote, credentials: GitCredentials | None, addresses: Sequence[str]
    ) -> Generator[dict[str, str]]:
        """The environment, valid inside the `with`. Invalid: an unusable private key.

        `addresses` are the admitted ones: git is bound to them, whatever the name gives later.
        """
        if remote.is_http:
            yield environment(self._home, _http_settings(remote, credentials, addresses))
            return
        with _key_path(credentials) as key:
            env = environment(self._home)
            env["GIT_SSH_COMMAND"] = self._ssh_command(remote, key, addresses)
            env["GIT_SSH_VARIANT"] = "ssh"
            yield env

    def _ssh_command(self, remote: Remote, key: str | None, addresses: Sequence[str]) -> str:
        options = {
            "BatchMode": "yes",
            "IdentitiesOnly": "yes",
            "IdentityAgent": "none",
            "IdentityFile": key or "none",
            "StrictHostKeyChecking": "yes",
            "UserKnownHostsFile": str(self._known_hosts or os.devnull),
            "GlobalKnownHostsFile": os.devnull,
            "ConnectTimeout": "10",
            "ServerAliveInterval": "10",
            "HostName": addresses[0],
            "HostKeyAlias": remote.host,
            "ForwardAgent": "no",
            "ClearAllForwardings": "yes",
        }
        words = [self._ssh, "-F", os.devnull]
        for name, value in options.items():
            words += ["-o", f"{name}={value}"]
        return shlex.join(words)


def _http_settings(
    remote: Remote, credentials: GitCredentials | None, addresses: Sequence[str]
) -> dict[str, str]:
    settings = {}
    if header := authorization(credentials):
        settings[f"http.{remote.text}.extraHeader"] = f"Authorization: {header}"
    if addresses and addresses[0] != remote.host:
        hosts = ",".join(f"[{one}]" if ":" in one else one for one in addresses)
        settings["http.curloptResolve"] = f"{remote.host}:{remote.port}:{hosts}"
    return settings


@contextmanager
def _key_path(credentials: GitCredentials | None) -> Generator[str | None]:
    """A path under which ssh can read the key: memory of this process, no file."""
    if credentials is None or credentials.private_key is None:
        yield None
        return
    data = _plain_key(credentials)
    descriptor = os.memfd_create("identity", os.MFD_CLOEXEC)
    try:
        os.fchmod(descriptor, 0o600)
        os.write(descriptor, data)
        yield f"/proc/{os.getpid()}/fd/{descriptor}"
    finally:
        os.close(descriptor)


def _plain_key(credentials: GitCredentials) -> bytes:
    text = (credentials.private_key or "").strip().encode() + b"\n"
    password = credentials.passphrase.encode() if credentials.passphrase else None
    is_openssh = b"BEGIN OPENSSH" in text
    load = serialization.load_ssh_private_key if is_openssh else serialization.load_pem_private_key
    try:
        return load(text, password).private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.OpenSSH,
            serialization.NoEncryption(),
        )
    except UnsupportedAlgorithm as error:
        raise Invalid(f"the private key cannot be read: {error}", field="credentials") from None
    except (ValueError, TypeError):
        raise Invalid(
            "the private key cannot be read, or its passphrase is wrong", field="credentials"
        ) from None
