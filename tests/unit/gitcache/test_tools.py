"""Tools of this machine are asked for their versions, and leave nothing behind."""

from pathlib import Path

import pytest

from gitcache.render.kustomize import Kustomize
from gitcache.render.tools import RenderTools

KUBECTL = """#!/bin/sh
/bin/mkdir -p "${HOME:+$HOME/}.kube/cache"
echo Client Version: v1
"""


async def test_kubectl_keeps_its_cache_out_of_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a home it writes its cache where the server was started."""
    programs, started = tmp_path / "bin", tmp_path / "started"
    programs.mkdir()
    started.mkdir()
    (programs / "kubectl").write_text(KUBECTL)
    (programs / "kubectl").chmod(0o755)
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.chdir(started)
    tool = Kustomize.tool
    assert tool is not None
    found = await RenderTools().find(tool)
    assert found.version == "kubectl Client Version: v1\n"
    assert list(started.iterdir()) == []
