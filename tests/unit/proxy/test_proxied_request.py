"""The end of a request releases everything that it held."""

from typing import cast

import pytest

from core.mux.codec import Buffer
from proxy.domain.attributes import read_attributes
from proxy.domain.audit import RequestRecord
from proxy.domain.limits import HeadLimits, StreamLimits
from proxy.gateway.forward.proxied_request import ClientConnection, ProxiedRequest
from proxy.gateway.parse.parsed_request import ParsedRequest
from proxy.gateway.parse.parser import RequestParser
from proxy.gateway.record.metrics import ProxyMetrics
from proxy.gateway.record.open_requests import OpenRequests
from proxy.gateway.record.recorder import NoSessionRecorder, RequestRecorder
from tests.fakes.kube_proxy import ANN, FakeInstallation
from tests.fakes.tunnel import ManualLoop


class BrokenRecording:
    """A recording whose disk fails at the end."""

    def from_user(self, data: Buffer) -> None: ...

    def from_cluster(self, data: Buffer) -> None: ...

    def close(self) -> None:
        raise OSError("disk full")


def test_a_recording_that_fails_at_its_end_keeps_no_count() -> None:
    clock = ManualLoop()
    recorder = RequestRecorder(
        FakeInstallation(), NoSessionRecorder(), OpenRequests(StreamLimits()), ProxyMetrics()
    )
    attributes = read_attributes("GET", "/api/v1/pods")
    record = RequestRecord("0" * 32, clock.now(), "", "", "dev", "GET", True, attributes, ANN)
    head = b"GET /k8s/clusters/dev/api/v1/pods HTTP/1.1\r\nHost: a\r\n\r\n"
    parsed = RequestParser(HeadLimits()).parse(head)
    assert parsed is not None and isinstance(parsed[0], ParsedRequest)
    request = ProxiedRequest(
        cast("ClientConnection", None), recorder, clock, parsed[0].head, record
    )
    recorder.enter(record)
    request.entered = True
    request.record_session(BrokenRecording())
    with pytest.raises(OSError, match="disk full"):
        request.on_user_lost()
    assert recorder.open_requests.empty
