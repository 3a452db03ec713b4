"""Build times of images, as registries send them."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import orjson
import pytest

from controlplane.repositories import registry
from controlplane.repositories.registry import ImageRegistries
from core.errors import Unavailable
from core.outbound.credentials import RegistryAccount
from core.spec.images import OciRepository

IMAGE, INDEX, CONFIG = ("sha256:" + letter * 64 for letter in "abc")
ACCOUNT = RegistryAccount("bot", "t0ken")


class OneImage:
    """A registry client that knows one image, whose config has this build time."""

    def __init__(self, created: object, platforms: object = None) -> None:
        self.reads: list[str] = []
        self._config = {} if created is None else {"created": created}
        self._manifests: dict[str, dict[str, Any]] = {IMAGE: {"config": {"digest": CONFIG}}}
        if platforms is not None:
            self._manifests[INDEX] = {"manifests": platforms}

    async def tags(self, repository: OciRepository, account: RegistryAccount | None) -> list[str]:
        return [f"{repository.registry}/{repository.name}", str(account and account.username)]

    async def digest(
        self, repository: OciRepository, tag: str, account: RegistryAccount | None
    ) -> str:
        return INDEX if INDEX in self._manifests else IMAGE

    async def manifest(
        self, repository: OciRepository, digest: str, account: RegistryAccount | None
    ) -> dict[str, Any]:
        return self._manifests[digest]

    async def blob(
        self, repository: OciRepository, digest: str, account: RegistryAccount | None
    ) -> bytes:
        assert digest == CONFIG
        self.reads.append(f"{repository.registry}/{repository.name}")
        return orjson.dumps(self._config)


async def build_time(client: Any) -> datetime:
    return await ImageRegistries(client).build_time("r.example.org/web", "live", None)


@pytest.mark.parametrize(
    ("created", "expected"),
    [
        ("2026-01-02T03:04:05Z", datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)),
        ("2026-01-02T03:04:05.123456789Z", datetime(2026, 1, 2, 3, 4, 5, 123456, UTC)),
        (
            "2026-01-02T03:04:05+02:00",
            datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone(timedelta(hours=2))),
        ),
        ("2026-01-02T03:04:05", datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)),
    ],
)
async def test_a_build_time_has_a_time_zone(created: str, expected: datetime) -> None:
    assert await build_time(OneImage(created)) == expected
    assert await build_time(OneImage(created, [{"digest": IMAGE}])) == expected


@pytest.mark.parametrize("created", [None, "", "yesterday", 5, ["2026"]])
async def test_an_image_without_a_build_time_is_named(created: object) -> None:
    with pytest.raises(Unavailable, match=r"r\.example\.org sent no build time of web"):
        await build_time(OneImage(created))


@pytest.mark.parametrize("platforms", [[], [{}], ["sha256"]])
async def test_an_index_without_images_has_no_build_time(platforms: list[object]) -> None:
    with pytest.raises(Unavailable):
        await build_time(OneImage("2026-01-02T03:04:05Z", platforms))


async def test_tags_are_those_of_the_image_for_the_account() -> None:
    client: Any = OneImage(None)
    tags = await ImageRegistries(client).tags("r.example.org/team/web", ACCOUNT)
    assert tags == ["r.example.org/team/web", "bot"]


async def test_a_build_time_is_read_once_for_each_repository() -> None:
    """A registry is not trusted about the images of others, even with their digests."""
    client = OneImage("2026-01-02T03:04:05Z")
    shared: Any = client
    registries = ImageRegistries(shared)
    images = ["r.example.org/web", "r.example.org/api", "evil.example.org/web"]
    for image in images * 2:
        await registries.build_time(image, "live", ACCOUNT)
    assert client.reads == images


async def test_the_oldest_build_times_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "MAX_CACHED", 2)
    client = OneImage("2026-01-02T03:04:05Z")
    shared: Any = client
    registries = ImageRegistries(shared)
    for name in ("a", "b", "c", "b", "a"):
        await registries.build_time(f"r.example.org/{name}", "live", None)
    assert [read[-1] for read in client.reads] == ["a", "b", "c", "a"]
