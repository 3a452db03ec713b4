"""Counts of open requests, and their limits by project."""

import pytest

from core.errors import LimitExceeded
from proxy.domain.limits import StreamLimits
from proxy.gateway.record.open_requests import OpenRequests

SHOP = (("shop", 2),)


def test_a_project_has_so_many_open_requests_of_all_its_users() -> None:
    requests = OpenRequests(StreamLimits())
    requests.enter("ada", "prod", upgrade=False, projects=SHOP)
    requests.enter("bo", "dev", upgrade=False, projects=(*SHOP, ("bank", 9)))
    with pytest.raises(LimitExceeded, match='2 requests open in project "shop", which may have 2'):
        requests.enter("cyd", "prod", upgrade=False, projects=(("bank", 9), *SHOP))
    requests.enter("cyd", "prod", upgrade=False)
    requests.leave("ada", "prod", SHOP)
    requests.enter("cyd", "prod", upgrade=False, projects=SHOP)


def test_a_refused_request_counts_nowhere() -> None:
    requests = OpenRequests(StreamLimits())
    requests.enter("ada", "prod", upgrade=False, projects=SHOP)
    for _ in range(3):
        with pytest.raises(LimitExceeded):
            requests.enter("ada", "prod", upgrade=False, projects=(*SHOP, ("bank", 0)))
    requests.enter("ada", "prod", upgrade=False, projects=SHOP)
    for _ in range(2):
        requests.leave("ada", "prod", SHOP)
    assert requests.empty
