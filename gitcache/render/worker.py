"""The program of a worker: `python -m gitcache.render.worker <settings as JSON>`.

Reads jobs from standard input and writes answers to standard output, one at a time. Importing
this module has no side effects.
"""

import os
import sys
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import BinaryIO

import orjson

from core.errors import Code, Invalid, TowlineError
from core.json_object import JsonMapping, JsonObject
from core.spec.bundle import make_bundle
from core.spec.renderers import MAX_RENDERED_FILES, RenderOptions
from gitcache.domain.artifacts import CommitText, LayerForm
from gitcache.render import charts, framing, manifests, sandbox, templates
from gitcache.render.parameters import ParameterRecorder
from gitcache.render.renderer import Files, Renderer, WorkerJob
from gitcache.render.renderers import renderer_named
from gitcache.render.unpack.commit import build_commit
from gitcache.render.unpack.layers import PackedLayer, unpack

_MAX_INPUT = 1 << 30

Answer = tuple[JsonObject, Files]


def main() -> None:
    """Serves until standard input ends."""
    settings = orjson.loads(sys.argv[1])
    # Answers go to a private copy of the pipe, so that a stray print does not break the framing.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    isolated = sandbox.leave_network()
    sandbox.limit_resources(settings["memory"], settings["tool_memory"], settings["file_bytes"])
    own_user = sandbox.switch_user(settings["uid"])
    filtered = sandbox.filter_system_calls()
    isolation = {"isolated": isolated, "ownUser": own_user, "filtered": filtered}
    _send(answers, framing.encode(isolation))
    while (message := _receive(sys.stdin.buffer)) is not None:
        sandbox.allow_cpu(settings["seconds"])
        _send(answers, _run_job(message, settings))


def _run_job(message: framing.WorkerMessage, settings: Mapping[str, object]) -> bytes:
    fields_of_job = message.fields
    recorder = ParameterRecorder(fields_of_job["parameters"])
    try:
        job = _make_job(message, recorder, settings)
        fields, blobs = _OPERATIONS[fields_of_job["verb"]](
            renderer_named(fields_of_job["renderer"]), job
        )
    except TowlineError as error:
        fields, blobs = _failure(error.code, error.message), {}
    except MemoryError:
        recorder.record_all()
        fields, blobs = _failure(Code.INVALID, "rendering needs too much memory"), {}
    except OSError as error:
        reason = f"the scratch disk failed: {error.strerror}"
        fields, blobs = _failure(Code.UNAVAILABLE, reason), {}
    except Exception as error:
        fields, blobs = _failure(Code.INVALID, f"rendering failed ({type(error).__name__})"), {}
    return framing.encode({**fields, "reads": recorder.reads}, blobs)


def _failure(code: Code, message: str) -> JsonObject:
    return {"code": code, "message": message}


def _make_job(
    message: framing.WorkerMessage, recorder: ParameterRecorder, limits: JsonMapping
) -> WorkerJob:
    fields = message.fields
    return WorkerJob(
        folder=fields["folder"],
        root=fields["root"],
        files=message.blobs,
        parameters=recorder,
        templated=fields["templated"],
        settings=fields["settings"],
        archives=fields["archives"],
        options=RenderOptions.from_json(fields["options"]),
        command=fields["command"],
        scratch=Path(limits["scratch"]),
        memory=limits["memory"],
    )


def _render(renderer: Renderer, job: WorkerJob) -> Answer:
    objects = _render_objects(renderer, _expand_templates(renderer, job))
    bundle = make_bundle(located.kube_object for located in objects)
    files = manifests.files_of(objects)[:MAX_RENDERED_FILES]
    return {"count": bundle.count, "files": files}, {"bundle": bundle.data}


def _render_objects(renderer: Renderer, job: WorkerJob) -> list[manifests.LocatedObject]:
    try:
        return renderer.render(job)
    except manifests.NoObjects:
        if job.options.allow_empty:
            return []
        raise
    except Invalid as error:
        if job.templated or not renderer.uses_liquid:
            raise
        raise Invalid(
            error.message + templates.untemplated_hint(error.message, job.files)
        ) from error


def _references(renderer: Renderer, job: WorkerJob) -> Answer:
    job = _expand_templates(renderer, job)
    references = renderer.references(job.folder, job.files)
    charts_of_folder = [asdict(chart) for chart in references.charts]
    return {
        "paths": list(references.paths),
        "charts": charts_of_folder,
        "bases": list(references.bases),
    }, {}


def _versions(renderer: Renderer, job: WorkerJob) -> Answer:
    return {"charts": charts.versions(job.files["index.yaml"], job.folder)}, {}


def _artifact(renderer: Renderer, job: WorkerJob) -> Answer:
    layers = [
        PackedLayer(LayerForm(layer["form"]), layer["path"], job.files[str(number)])
        for number, layer in enumerate(job.settings["layers"])
    ]
    built = build_commit(unpack(layers), CommitText(**job.settings["text"]))
    return {"sha": built.sha}, {"commit": built.data, "pack": built.pack}


_OPERATIONS = {
    "render": _render,
    "references": _references,
    "versions": _versions,
    "artifact": _artifact,
}


def _expand_templates(renderer: Renderer, job: WorkerJob) -> WorkerJob:
    """Expands Liquid templates, unless the renderer has its own."""
    if not renderer.uses_liquid:
        return job
    if not job.templated:
        templates.check_untemplated(job.files)
        return job
    return replace(job, files=templates.expand(job.files, job.parameters.root))


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
