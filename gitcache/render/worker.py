"""The program of a worker process: `python -m gitcache.render.worker <settings as JSON>`.

Reads jobs from standard input and answers on standard output, one at a time, until the input
ends. Importing this module does nothing.
"""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import orjson

from fleet.bundle import make_bundle
from fleet.errors import Code, TowlineError
from gitcache.render import framing, kustomize, manifests, sandbox, templates

_MAX_INPUT = 1 << 30


def main() -> None:
    """Serve until standard input ends."""
    settings = orjson.loads(sys.argv[1])
    # Answers go to a private copy of the pipe: a stray print must not break the framing.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    isolated = sandbox.leave_network()
    sandbox.limit_resources(settings["memory"], settings["toolMemory"], settings["fileBytes"])
    _send(answers, framing.encode({"isolated": isolated}))
    while (message := _receive(sys.stdin.buffer)) is not None:
        sandbox.allow_cpu(settings["seconds"])
        _send(answers, _answer(message, settings))


def _answer(message: framing.Message, settings: Mapping[str, Any]) -> bytes:
    try:
        job = message.fields
        files = message.blobs
        if job["parameters"] is not None:
            files = templates.expand(files, job["parameters"])
        if job["verb"] == "references":
            return framing.encode({"paths": kustomize.references(job["folder"], files)})
        bundle = make_bundle(_objects(job, files, settings))
        return framing.encode({"count": bundle.count}, {"bundle": bundle.data})
    except TowlineError as error:
        return _failed(error.code, error.message)
    except MemoryError:
        return _failed(Code.INVALID, "rendering needs too much memory")
    except OSError as error:
        return _failed(Code.UNAVAILABLE, f"the disk for rendering fails: {error.strerror}")
    except Exception as error:
        return _failed(Code.INVALID, f"rendering failed ({type(error).__name__})")


def _failed(code: Code, message: str) -> bytes:
    return framing.encode({"code": code, "message": message})


def _objects(
    job: Mapping[str, Any], files: Mapping[str, bytes], settings: Mapping[str, Any]
) -> list[dict[str, Any]]:
    if job["renderer"] == "raw":
        return manifests.read_folder(job["folder"], files)
    return kustomize.build(
        job["root"],
        files,
        job["command"],
        Path(settings["scratch"]),
        settings["seconds"],
    )


def _receive(stream: BinaryIO) -> framing.Message | None:
    prefix = stream.read(framing.LENGTH.size)
    if len(prefix) < framing.LENGTH.size:
        return None
    header = stream.read(framing.header_length(prefix))
    fields, sizes = framing.parse_header(header, _MAX_INPUT)
    return framing.Message(fields, {name: stream.read(size) for name, size in sizes})


def _send(stream: BinaryIO, data: bytes) -> None:
    stream.write(data)
    stream.flush()


if __name__ == "__main__":
    main()
