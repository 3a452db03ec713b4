"""Git LFS files: downloaded with the batch API and stored next to their clone."""

import asyncio
import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import orjson
from yarl import URL

from core.errors import Invalid, Unavailable
from core.json_object import JsonMapping
from core.spec.source import RepositoryKind, RepositorySpec
from gitcache.domain.pointers import Pointer, parse_pointer
from gitcache.mirror.transport.http import GitHttpClient, read_limited
from gitcache.mirror.transport.route import ServerRoute
from gitcache.mirror.transport.route_finder import RouteFinder

_JSON = "application/vnd.git-lfs+json"
_MAX_ANSWER = 4 << 20
_MAX_BATCH = 100


class LargeFiles:
    """Replaces pointers by files of at most `limit` bytes; 0 disables Git LFS."""

    def __init__(
        self,
        http: GitHttpClient,
        routes: RouteFinder,
        path_of: Callable[[RepositorySpec], Path],
        *,
        limit: int,
        total: int,
        seconds: float,
    ) -> None:
        self._http = http
        self._routes = routes
        self._path_of = path_of
        self._limit = limit
        self._total = total
        self._seconds = seconds

    async def resolve(
        self, spec: RepositorySpec, blobs: Mapping[str, bytes]
    ) -> Mapping[str, bytes]:
        """Replaces pointers by their files. Raises Invalid beyond a limit, Unavailable.

        Only git servers have large files: pointers in an artifact stay.
        """
        if spec.kind is not RepositoryKind.GIT:
            return blobs
        parsed = {blob: parse_pointer(data) for blob, data in blobs.items()}
        pointers = {blob: pointer for blob, pointer in parsed.items() if pointer is not None}
        if not pointers:
            return blobs
        self._check_sizes(list(pointers.values()))
        files = await self._read_or_download(spec, list(dict.fromkeys(pointers.values())))
        return {**blobs, **{blob: files[pointer] for blob, pointer in pointers.items()}}

    def _check_sizes(self, pointers: Sequence[Pointer]) -> None:
        largest = max(pointers, key=lambda pointer: pointer.size)
        if largest.size > self._limit:
            raise Invalid(
                f"a Git LFS file has {largest.size:,} bytes; the limit is {self._limit:,} "
                "(setting git.fetch.large_file)"
            )
        if sum(pointer.size for pointer in pointers) > self._total:
            raise Invalid(f"the folder's Git LFS files have more than {self._total:,} bytes")

    async def _read_or_download(
        self, spec: RepositorySpec, pointers: Sequence[Pointer]
    ) -> dict[Pointer, bytes]:
        files = await asyncio.to_thread(self._stored_files, spec, pointers)
        missing = [pointer for pointer in pointers if pointer not in files]
        for start in range(0, len(missing), _MAX_BATCH):
            batch = missing[start : start + _MAX_BATCH]

            async def work(route: ServerRoute, batch: Sequence[Pointer] = batch) -> None:
                for pointer, action in (await self._request_downloads(route, batch)).items():
                    files[pointer] = await self._download(route, pointer, action)
                    await asyncio.to_thread(self._store_file, spec, pointer, files[pointer])

            await self._routes.use(spec, work)
        return files

    async def _request_downloads(
        self, route: ServerRoute, pointers: Sequence[Pointer]
    ) -> dict[Pointer, Mapping[str, object]]:
        """Requests the download action of each file (git-lfs, docs/api/batch.md)."""
        if not route.remote.is_http:
            raise Unavailable("Git LFS files can be fetched only over https, not over ssh")
        base = route.remote.text.removesuffix(".git")
        query = {
            "operation": "download",
            "transfers": ["basic"],
            "objects": [{"oid": pointer.oid, "size": pointer.size} for pointer in pointers],
        }
        headers = route.authorized(
            {"Accept": _JSON, "Content-Type": _JSON, "User-Agent": "git-lfs/towline"}
        )
        url = URL(f"{base}.git/info/lfs/objects/batch")
        async with self._http.request(
            "POST", route, url, headers=headers, body=orjson.dumps(query)
        ) as answer:
            self._http.check_status(answer)
            data = await read_limited(answer, _MAX_ANSWER, "the answer of the Git LFS server")
        if answer.status != 200:
            raise Unavailable(
                f"{url.host} does not serve Git LFS for this repository ({answer.status})"
            )
        return _download_actions(data, pointers)

    async def _download(
        self, route: ServerRoute, pointer: Pointer, action: Mapping[str, object]
    ) -> bytes:
        url, headers = _url_and_headers(action)
        is_same_origin = (url.scheme, url.host, url.port) == route.remote.origin
        if is_same_origin and "authorization" not in {key.lower() for key in headers}:
            headers = route.authorized(headers)
        async with self._http.request(
            "GET", route, url, headers=headers, seconds=self._seconds
        ) as answer:
            self._http.check_status(answer)
            data = await read_limited(answer, pointer.size, "a file from the Git LFS server")
        if answer.status != 200 or hashlib.sha256(data).hexdigest() != pointer.oid:
            raise Unavailable(
                f"{url.host} sent content that does not match the Git LFS file {pointer.oid[:12]}"
            )
        return data

    def _file_path(self, spec: RepositorySpec, pointer: Pointer) -> Path:
        return self._path_of(spec) / "lfs" / pointer.oid[:2] / pointer.oid

    def _stored_files(
        self, spec: RepositorySpec, pointers: Sequence[Pointer]
    ) -> dict[Pointer, bytes]:
        files = {}
        for pointer in pointers:
            try:
                data = self._file_path(spec, pointer).read_bytes()
            except FileNotFoundError:
                continue
            if hashlib.sha256(data).hexdigest() == pointer.oid:
                files[pointer] = data
        return files

    def _store_file(self, spec: RepositorySpec, pointer: Pointer, data: bytes) -> None:
        path = self._file_path(spec, pointer)
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_suffix(".lock")
        temporary.write_bytes(data)
        temporary.replace(path)


def _download_actions(
    data: bytes, pointers: Sequence[Pointer]
) -> dict[Pointer, Mapping[str, object]]:
    try:
        answers = {answer["oid"]: answer for answer in orjson.loads(data)["objects"]}
        return {pointer: answers[pointer.oid]["actions"]["download"] for pointer in pointers}
    except (orjson.JSONDecodeError, KeyError, TypeError):
        raise Unavailable(
            "the Git LFS server lacks some files, or these credentials cannot access them"
        ) from None


def _url_and_headers(action: JsonMapping) -> tuple[URL, dict[str, str]]:
    try:
        url = URL(action["href"], encoded=True)
        headers = {str(key): str(value) for key, value in (action.get("header") or {}).items()}
    except (KeyError, TypeError, ValueError, AttributeError):
        raise Unavailable("cannot parse the Git LFS server's answer") from None
    if url.scheme not in {"http", "https"} or not url.host:
        raise Unavailable("the Git LFS server returned a download URL that is not http or https")
    return url, headers
