"""What the scheduler cannot start with."""

import socket

import pytest
from prometheus_client import CollectorRegistry

from kai.runtime import FatalError, Host
from kai_scheduler.service import SchedulerService
from kai_scheduler.settings import SchedulerSettings


@pytest.mark.integration
async def test_a_port_in_use_is_one_line_that_names_the_flag():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        service = SchedulerService(SchedulerSettings.parse([f"--grpc-listen={address}"]))
        host = Host(name=service.name, settings=service.settings, metrics=CollectorRegistry())
        with pytest.raises(FatalError, match=f"grpc-listen {address}: cannot listen there"):
            await service.run(host)
