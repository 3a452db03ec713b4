"""The program of a worker: `python -m gitcache.render.worker <settings as JSON>`.

Reads jobs from standard input and writes answers to standard output, one at a time. Importing
this module has no side effects.
"""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import orjson

from core.errors import Code, TowlineError
from core.spec.bundle import KubeObject, make_bundle
from gitcache.render import charts, framing, helm, jsonnet, kustomize, manifests, sandbox, templates
from gitcache.render.parameters import ParameterRecorder, as_lists

_MAX_INPUT = 1 << 30

Job = Mapping[str, Any]
Files = Mapping[str, bytes]


def main() -> None:
    """Serves until standard input ends."""
    settings = orjson.loads(sys.argv[1])
    # Answers go to a private copy of the pipe, so that a stray print does not break the framing.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    isolated = sandbox.leave_network()
    sandbox.limit_resources(settings["memory"], settings["toolMemory"], settings["fileBytes"])
    own_user = sandbox.become(settings["uid"])
    filtered = sandbox.refuse_system_calls()
    given = {"isolated": isolated, "ownUser": own_user, "filtered": filtered}
    _send(answers, framing.encode(given))
    while (message := _receive(sys.stdin.buffer)) is not None:
        sandbox.allow_cpu(settings["seconds"])
        _send(answers, _answer(message, settings))


def _answer(message: framing.WorkerMessage, settings: Mapping[str, Any]) -> bytes:
    job = message.fields
    recorder = ParameterRecorder(job["parameters"])
    try:
        fields, blobs = _VERBS[job["verb"]](job, message.blobs, recorder, settings)
    except TowlineError as error:
        fields, blobs = _failed(error.code, error.message), {}
    except MemoryError:
        recorder.note_all()
        fields, blobs = _failed(Code.INVALID, "rendering needs too much memory"), {}
    except OSError as error:
        reason = f"the scratch disk failed: {error.strerror}"
        fields, blobs = _failed(Code.UNAVAILABLE, reason), {}
    except Exception as error:
        fields, blobs = _failed(Code.INVALID, f"rendering failed ({type(error).__name__})"), {}
    return framing.encode({**fields, "reads": as_lists(recorder.reads)}, blobs)


def _failed(code: Code, message: str) -> dict[str, Any]:
    return {"code": code, "message": message}


def _render(
    job: Job, files: Files, recorder: ParameterRecorder, settings: Mapping[str, Any]
) -> tuple[dict[str, Any], Files]:
    bundle = make_bundle(_objects(job, _expanded(job, files, recorder), recorder, settings))
    return {"count": bundle.count}, {"bundle": bundle.data}


def _references(
    job: Job, files: Files, recorder: ParameterRecorder, settings: Mapping[str, Any]
) -> tuple[dict[str, Any], Files]:
    renderer, folder = job["renderer"], job["folder"]
    if renderer == "helm":
        return {"paths": [], "charts": charts.dependencies(folder, files)}, {}
    if renderer == "jsonnet":
        return {"paths": jsonnet.references(folder, files)}, {}
    return {"paths": kustomize.references(folder, _expanded(job, files, recorder))}, {}


def _versions(
    job: Job, files: Files, recorder: ParameterRecorder, settings: Mapping[str, Any]
) -> tuple[dict[str, Any], Files]:
    return {"charts": charts.versions(files["index.yaml"], job["folder"])}, {}


_VERBS = {"render": _render, "references": _references, "versions": _versions}


def _expanded(job: Job, files: Files, recorder: ParameterRecorder) -> Files:
    """Expands Liquid templates; Helm and Jsonnet have their own."""
    if not job["templated"] or job["renderer"] in ("helm", "jsonnet"):
        return files
    return templates.expand(files, recorder.root)


def _objects(
    job: Job, files: Files, recorder: ParameterRecorder, settings: Mapping[str, Any]
) -> list[KubeObject]:
    renderer, root = job["renderer"], job["root"]
    if renderer == "raw":
        return manifests.read_folder(job["folder"], files)
    if renderer == "helm":
        return helm.build(job, files, recorder, settings)
    if renderer == "jsonnet":
        return jsonnet.build(root, files, recorder)
    return kustomize.build(root, files, job["command"], Path(settings["scratch"]))


def _receive(stream: BinaryIO) -> framing.WorkerMessage | None:
    prefix = stream.read(framing.LENGTH.size)
    if len(prefix) < framing.LENGTH.size:
        return None
    header = stream.read(framing.header_length(prefix))
    fields, sizes = framing.parse_header(header, _MAX_INPUT)
    return framing.WorkerMessage(fields, {name: stream.read(size) for name, size in sizes})


def _send(stream: BinaryIO, data: bytes) -> None:
    stream.write(data)
    stream.flush()


if __name__ == "__main__":
    main()
