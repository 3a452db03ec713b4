"""The data planes of the Kubernetes proxy that tests run over."""

import os
import shutil
from collections.abc import Collection

import pytest

from core.native import is_available
from proxy.settings import DataPlane

_VARIABLE = "DATA_PLANE"
# Where cargo is, the module must be too: there CI fails instead of skipping.
_MAY_BE_MISSING = not (os.environ.get("CI") and shutil.which("cargo"))
needs_native = pytest.mark.skipif(
    not is_available() and _MAY_BE_MISSING,
    reason="platform: the module towline_native is not built here",
)
PLANES = [DataPlane.PORTABLE, pytest.param(DataPlane.NATIVE, marks=needs_native)]


def run_over_planes(metafunc: pytest.Metafunc, modules: Collection[str]) -> None:
    """Runs the tests of these modules once for each data plane, by an indirect fixture `plane`."""
    if metafunc.module.__name__.rpartition(".")[2] in modules:
        metafunc.parametrize("plane", PLANES, indirect=True)


def choose_plane(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sets the data plane of a test that runs over several."""
    if hasattr(request, "param"):
        monkeypatch.setenv(_VARIABLE, request.param)


def chosen_plane(default: DataPlane) -> DataPlane:
    """The data plane that a test, or a person by `DATA_PLANE`, has chosen."""
    return DataPlane(os.environ.get(_VARIABLE, default))
