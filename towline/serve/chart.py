"""The agent's Helm chart as a package, for whoever installs an agent from here.

`GET /ext/v1/agent/chart` answers with it, to everybody: the chart holds no secret.
"""

import gzip
import hashlib
import io
import tarfile
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from fleet.errors import Unavailable

NAME = "towline-agent"
PATH = "/ext/v1/agent/chart"
# Beside this package in a wheel, at the root of a checkout.
_PLACES = (
    Path(__file__).parents[1] / "charts" / NAME,
    Path(__file__).parents[2] / "charts" / NAME,
)
_LEFT_OUT = ("ci",)


def chart_route() -> Route:
    """The route; the package is made once. Unavailable: this installation has no chart."""
    data = package(_folder())
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
    """A chart's folder as a gzipped tar, as Helm packages it; the same bytes for the same files."""
    packed = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=packed, mode="wb", mtime=0) as zipped,
        tarfile.open(fileobj=zipped, mode="w") as archive,
    ):
        for path in sorted(folder.rglob("*")):
            place = path.relative_to(folder)
            if path.is_file() and place.parts[0] not in _LEFT_OUT:
                _add(archive, f"{folder.name}/{place.as_posix()}", path.read_bytes())
    return packed.getvalue()


def _add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    entry.mode = 0o644
    archive.addfile(entry, io.BytesIO(content))


def _folder() -> Path:
    for folder in _PLACES:
        if (folder / "Chart.yaml").is_file():
            return folder
    raise Unavailable(f"the chart {NAME} is missing in this installation: install it again")
