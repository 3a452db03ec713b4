"""Clusters that are given, and kubectl as their client."""

from pathlib import Path

import pytest

from core.errors import Invalid, Unavailable
from towline.demo.clusters.access import ClusterAccess, contexts_from_environment


def test_without_the_variable_no_cluster_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    """The demo then starts its own."""
    monkeypatch.delenv("DEMO_KUBECONFIG", raising=False)
    assert contexts_from_environment() == []


def test_the_contexts_of_the_given_file_are_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the order in which the file names them."""
    path = tmp_path / "config"
    path.write_text("contexts: [{name: dev, context: {}}, {name: prod, context: {}}]")
    monkeypatch.setenv("DEMO_KUBECONFIG", str(path))
    assert contexts_from_environment() == [ClusterAccess(path, "dev"), ClusterAccess(path, "prod")]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("contexts: [{name: only, context: {}}]", "has 1 contexts; the demo needs two"),
        ("contexts:", "has 0 contexts"),
        ("just text", "has 0 contexts"),
        ("a: [", ""),
        (None, ""),
    ],
)
def test_a_file_that_cannot_serve_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str | None, reason: str
) -> None:
    """The message names the variable and what is wrong."""
    path = tmp_path / "config"
    if content is not None:
        path.write_text(content)
    monkeypatch.setenv("DEMO_KUBECONFIG", str(path))
    with pytest.raises(Invalid, match=f"DEMO_KUBECONFIG=.*{reason}"):
        contexts_from_environment()


def test_a_missing_kubectl_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One clear line instead of an exception of the operating system."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Unavailable, match="kubectl is not installed"):
        ClusterAccess(tmp_path / "config", "dev").kubectl("version")


def test_a_kubectl_error_contains_its_stderr(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its standard error, after the command."""
    kubectl = tmp_path / "kubectl"
    kubectl.write_text("#!/bin/sh\necho forbidden: you >&2\nexit 1\n")
    kubectl.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Unavailable, match="kubectl get pods: forbidden: you"):
        ClusterAccess(tmp_path / "config", "dev").kubectl("get", "pods")
