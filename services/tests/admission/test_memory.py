"""What admission has loaded is not looked through again and again while reviews wait."""

import asyncio
import gc

from deadlines import eventually
from kai.observe import new_registry
from kai.runtime import Host, certificates
from kai_admission.service import AdmissionService
from kai_admission.settings import AdmissionSettings


async def test_what_was_loaded_is_left_out_of_garbage_collection(tmp_path):
    certificates.ensure(tmp_path, ["localhost"])
    settings = AdmissionSettings(webhook_addr="127.0.0.1:0", cert_dir=str(tmp_path), watch_cluster=False)
    service = AdmissionService(settings)
    host = Host(name=service.name, settings=settings, metrics=new_registry())
    gc.unfreeze()
    running = asyncio.create_task(service.run(host))
    try:
        await eventually(gc.get_freeze_count, lambda count: count > 10_000)
    finally:
        host.stopping.set()
        await running
        gc.unfreeze()
