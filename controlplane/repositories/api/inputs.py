"""Inputs of the API for repositories."""

from dataclasses import fields

import strawberry

from controlplane.repositories.operations import RepositoryChange
from core.spec.source import GitCredentials


@strawberry.input
class GitAttributes:
    """Fields of a Git repository. A field that is null or absent stays as it is. Secrets are never
    returned."""

    url: str
    """URL: `https://…`, `ssh://…` or `user@host:path`."""
    private_key: str | None = None
    """SSH private key, or private key of the GitHub App, in PEM."""
    passphrase: str | None = None
    """Passphrase of the SSH private key."""
    username: str | None = None
    """Username for HTTPS."""
    password: str | None = None
    """Password or token for HTTPS."""
    webhook_secret: str | None = None
    """Secret that signs push webhooks."""
    https_path: str | None = None
    """URL of the repository for browsers. Stored only."""
    url_format: str | None = None
    """Template of links to files for browsers. Stored only."""
    decrypt: bool | None = None
    """Not supported. Present for compatibility."""
    project_id: strawberry.ID | None = None
    """ID of the project. Default: the default project."""
    app_id: str | None = None
    """ID of the GitHub App."""
    installation_id: str | None = None
    """ID of the installation of the GitHub App."""
    api_url: str | None = None
    """URL of the GitHub API. Default: derived from `url`."""
    client_certificate: str | None = None
    """TLS client certificate in PEM."""
    client_key: str | None = None
    """Key of the TLS client certificate in PEM."""
    authority: str | None = None
    """CA certificates of the server in PEM. Default: the system's."""
    known_hosts: str | None = None
    """SSH host keys in the format of OpenSSH's `known_hosts`."""
    proxy: str | None = None
    """HTTP proxy: `http://[user:password@]host:port`."""
    via_cluster_id: str | None = None
    """ID of the cluster whose agent reaches the server. An empty string connects directly again."""
    recurse_submodules: bool | None = None
    """True fetches submodules, too. Default: false."""

    def change(self) -> RepositoryChange:
        named = {
            credential.name: getattr(self, credential.name) for credential in fields(GitCredentials)
        }
        return RepositoryChange(
            self.url,
            GitCredentials(**named),
            self.webhook_secret,
            self.decrypt,
            self.project_id or None,
            self.via_cluster_id,
            self.recurse_submodules,
            self.https_path,
            self.url_format,
        )
