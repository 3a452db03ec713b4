"""Access of commands to a cluster, by the kubeconfig of their user.

The library `kubernetes` reads it, with all its kinds of credentials. The agent has its own reader,
which uses less memory.
"""

import asyncio
import ssl
from datetime import timedelta
from pathlib import Path

from kubernetes import client, config
from yaml import YAMLError

from core.errors import Invalid, Unavailable
from core.runtime.clock import Clock
from core.tls import client_context
from syncagent.kube.access import ApiServerAccess, Bearer, BearerToken, refuse_impersonation

_TOKEN_LIFE = timedelta(seconds=60)


def from_kubeconfig(path: Path, context: str | None, clock: Clock) -> ApiServerAccess:
    """Reads the access from a kubeconfig. Invalid: the file or the context is not usable."""
    configuration = client.Configuration()
    try:
        config.load_kube_config(str(path), context, configuration, persist_config=False)
        tls = _tls(configuration) if configuration.host.startswith("https:") else None
    except (config.ConfigException, OSError, ValueError, TypeError, YAMLError) as error:
        raise Invalid(f"kubeconfig {path} is not usable: {error}") from error
    # The library would ignore it, and act with the permissions of the user itself.
    refuse_impersonation(path, context)

    async def read() -> Bearer:
        # Expired credentials run a plugin, which blocks.
        header = await asyncio.to_thread(_authorization, configuration)
        return header.removeprefix("Bearer "), clock.now() + _TOKEN_LIFE

    token = BearerToken(read, clock) if configuration.auth_settings() else None
    return ApiServerAccess(
        configuration.host,
        (lambda: tls) if tls else None,
        token,
        configuration.cert_file is not None,
        server_name=configuration.tls_server_name,
        proxy=configuration.proxy,
    )


def _authorization(configuration: client.Configuration) -> str:
    value = configuration.auth_settings()["BearerToken"]["value"]
    if not value:
        raise Unavailable("the kubeconfig has no valid token")
    return value


def _tls(configuration: client.Configuration) -> ssl.SSLContext:
    tls = client_context(file=configuration.ssl_ca_cert)
    if not configuration.verify_ssl:
        tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    if configuration.cert_file:
        tls.load_cert_chain(configuration.cert_file, configuration.key_file)
    return tls
