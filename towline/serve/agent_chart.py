"""Serves the agent's Helm chart at `GET /ext/v1/agent/chart`.

The endpoint needs no authentication: the chart contains no secrets.
"""

import gzip
import hashlib
import io
import tarfile
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from core.errors import Unavailable

NAME = "towline-agent"
PATH = "/ext/v1/agent/chart"
# In a wheel, and in a checkout.
_CHART_FOLDERS = (
    Path(__file__).parents[1] / "charts" / NAME,
    Path(__file__).parents[2] / "charts" / NAME,
)
_EXCLUDED = ("ci",)


def chart_route() -> Route:
    """Builds the route, and packages the chart once. Unavailable: the chart is missing."""
    data = package(chart_folder())
    headers = {
        "etag": f'"{hashlib.sha256(data).hexdigest()[:32]}"',
        "content-disposition": f'attachment; filename="{NAME}.tgz"',
    }

    async def chart(request: Request) -> Response:
        if request.headers.get("if-none-match") == headers["etag"]:
            return Response(status_code=304, headers=headers)
        return Response(data, media_type="application/gzip", headers=headers)

    return Route(PATH, chart)


def package(folder: Path) -> bytes:
    """Packages a chart's folder as Helm does, as a reproducible gzipped tar."""
    buffer = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=buffer, mode="wb", mtime=0) as zipped,
        tarfile.open(fileobj=zipped, mode="w") as archive,
    ):
        for path in sorted(folder.rglob("*")):
            relative_path = path.relative_to(folder)
            if path.is_file() and relative_path.parts[0] not in _EXCLUDED:
                _add_file(archive, f"{folder.name}/{relative_path.as_posix()}", path.read_bytes())
    return buffer.getvalue()


def _add_file(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    entry.mode = 0o644
    archive.addfile(entry, io.BytesIO(content))


def chart_folder() -> Path:
    """Returns the folder of the chart. Unavailable: it is missing."""
    for folder in _CHART_FOLDERS:
        if (folder / "Chart.yaml").is_file():
            return folder
    raise Unavailable(f"the chart {NAME} is missing in this installation: reinstall Towline")
