"""A kubeconfig gives access over verified TLS only."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from core.errors import Invalid
from syncagent.kube.access import from_kubeconfig
from tests.fakes.clock import FakeClock


def kubeconfig(folder: Path, **cluster: Any) -> Path:
    """A kubeconfig with a token and this cluster."""
    path = folder / "kubeconfig"
    path.write_text(
        yaml.safe_dump(
            {
                "current-context": "c",
                "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
                "clusters": [{"name": "c", "cluster": cluster}],
                "users": [{"name": "u", "user": {"token": "canary-1234token"}}],
            }
        )
    )
    return path


@pytest.mark.parametrize(
    ("cluster", "problem"),
    [
        ({"server": "https://k.example.org", "insecure-skip-tls-verify": True}, "verification"),
        ({"server": "http://k.example.org"}, "has no TLS"),
        ({"server": "http://10.0.0.1:8080"}, "has no TLS"),
    ],
)
def test_no_kubeconfig_turns_off_tls(tmp_path: Path, cluster: dict[str, Any], problem: str) -> None:
    with pytest.raises(Invalid, match=problem):
        from_kubeconfig(kubeconfig(tmp_path, **cluster), None, FakeClock())


@pytest.mark.parametrize("proxy", ["socks5://10.0.0.1:1080", "https://u:canary@proxy:3128"])
def test_a_proxy_of_another_kind_is_refused(tmp_path: Path, proxy: str) -> None:
    """The password of its URL is not repeated."""
    server = {"server": "https://k.example.org", "proxy-url": proxy}
    with pytest.raises(Invalid, match="proxy-url must begin with http://") as refused:
        from_kubeconfig(kubeconfig(tmp_path, **server), None, FakeClock())
    assert "canary" not in refused.value.message


def test_a_kubeconfig_that_impersonates_is_refused(tmp_path: Path) -> None:
    """Requests would have the permissions of the user itself, which may be more."""
    path = kubeconfig(tmp_path, server="https://k.example.org")
    config = yaml.safe_load(path.read_text())
    config["users"][0]["user"] |= {"as": "dev", "as-groups": ["devs"]}
    path.write_text(yaml.safe_dump(config))
    with pytest.raises(Invalid, match="impersonates another one .as, as-groups"):
        from_kubeconfig(path, None, FakeClock())


def test_this_machine_needs_no_tls(tmp_path: Path) -> None:
    """`kubectl proxy` listens there."""
    access = from_kubeconfig(
        kubeconfig(tmp_path, server="http://127.0.0.1:8001"), None, FakeClock()
    )
    assert access.tls is None
