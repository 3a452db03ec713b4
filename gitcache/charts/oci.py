"""Charts in OCI registries."""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass

from yarl import URL

from core.errors import Invalid, NotFound
from core.outbound.credentials import RegistryAccount
from core.outbound.oci import OciRegistryClient, descriptor_digest
from core.remotes import parse_chart_remote
from core.signatures.artifact import ArtifactSignature
from core.spec.bundle import digest_of
from core.spec.images import OciRepository, is_repository_name
from gitcache.charts.cosign import SignatureReader

_LAYER = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"


@dataclass(frozen=True, slots=True)
class ChartLayer:
    """The single layer of a chart artifact: digest and size in bytes."""

    digest: str
    size: int


class OciChartRepository:
    """The repository of one chart in a registry. `account` None: anonymous."""

    def __init__(
        self, client: OciRegistryClient, url: str, name: str, account: RegistryAccount | None
    ) -> None:
        parse_chart_remote(url)
        parsed = URL(url)
        path = "/".join(part for part in (parsed.path.strip("/"), name) if part)
        if not parsed.host or not is_repository_name(path):
            raise Invalid(f"{path[:120]!r} is not a valid chart name", field="chart")
        self._client = client
        self._repository = OciRepository(parsed.authority, path)
        self._account = account

    async def versions(self) -> list[str]:
        """Lists all versions of the chart. Raises Invalid for an unknown chart, Unavailable."""
        with _not_found_as_invalid():
            tags = await self._client.tags(self._repository, self._account)
        return [tag.replace("_", "+") for tag in tags]

    async def layer(self, version: str) -> ChartLayer:
        """Finds the archive of a version. Raises Invalid for an unknown version or a non-chart."""
        tag = version.replace("+", "_")
        with _not_found_as_invalid():
            manifest = await self._client.manifest(self._repository, tag, self._account)
        layers = manifest.get("layers")
        for layer in layers if isinstance(layers, list) else []:
            if isinstance(layer, dict) and layer.get("mediaType") == _LAYER:
                digest = descriptor_digest(self._repository, layer)
                return ChartLayer(digest, _size_in_bytes(layer.get("size")))
        raise Invalid(f"{self._repository.name}:{version} is not a Helm chart")

    async def signatures(self, version: str) -> list[ArtifactSignature]:
        """Returns cosign's signatures of a version; none for an unsigned one. Unavailable."""
        client, repository, account = self._client, self._repository, self._account
        tag = version.replace("+", "_")
        with _not_found_as_invalid():
            manifest = await client.manifest_bytes(repository, tag, account)
        reader = SignatureReader(client, repository, account)
        return await reader.read(digest_of(manifest), manifest)

    async def archive(self, layer: ChartLayer, max_bytes: int) -> bytes:
        """Downloads the archive. Raises Invalid beyond the limit, Unavailable for a bad digest."""
        if layer.size > max_bytes:
            raise Invalid(f"the chart has {layer.size:,} bytes; the limit is {max_bytes:,}")
        with _not_found_as_invalid():
            return await self._client.blob(self._repository, layer.digest, self._account, max_bytes)


@contextmanager
def _not_found_as_invalid() -> Generator[None]:
    """Raises Invalid for a missing chart: its reference is wrong."""
    try:
        yield
    except NotFound as error:
        raise Invalid(error.message) from None


def _size_in_bytes(value: object) -> int:
    return value if isinstance(value, int) else 0
