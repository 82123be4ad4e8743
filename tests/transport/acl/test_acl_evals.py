"""A report of an evaluation that somebody wrote with a worker's password, on the machine of whoever reads it."""

from __future__ import annotations

import pytest

from envelope.lifecycle import State
from envelope.messages import Attachment, Output, TaskResult
from orchestrator.client import Muster
from orchestrator.errors import BadInput
from orchestrator.evaluation.outcomes import SampleReport
from orchestrator.evaluation.report import REPORT_NAME, EvalReport
from orchestrator.settings import Settings
from orchestrator.submit import DRIVERS, EVAL
from transport import keyring
from transport.redis import connect_redis

pytestmark = pytest.mark.redis


@pytest.mark.parametrize(("case", "variant"), [("{elsewhere}", "v"), ("..", ".."), ("fine", "../../x"), ("a/b", "v")])
async def test_recordings_are_written_below_their_folder_alone(as_role, acl_server, tmp_path, case, variant):
    owner = await as_role("orchestrator")
    muster = Muster(owner.transport, Settings(state_dir=tmp_path / "state"))
    task = await owner.submit(agent=EVAL, recipient=DRIVERS)
    thief = await connect_redis(acl_server.url("worker"), keyring=keyring.fresh())
    [claim] = await thief.claim(DRIVERS, "thief", slots=1, wait_s=5)
    said = {"outcome": "accepted", "number": 0, "cassette": await thief.blobs.put(b"of the thief\n")}
    samples = (
        SampleReport(case="fine", variant="v", **said),
        SampleReport(case=case.format(elsewhere=tmp_path / "elsewhere"), variant=variant, **said),
    )
    report = EvalReport(name="suite", tries=1, variants=(), samples=samples)
    blob = await thief.blobs.put(report.model_dump_json().encode())
    result = TaskResult(
        trace_id=task.trace_id,
        task_id=task.task_id,
        attempt=1,
        status=State.COMPLETED,
        output=Output(structured=report.model_dump(mode="json")),
        attachments=(Attachment(blob=blob, name=REPORT_NAME),),
    )
    await thief.finish(claim.lease, result)
    await thief.close()

    with pytest.raises(BadInput, match="no suite has"):
        await muster.evals.recordings(task.task_id, tmp_path / "work" / "recordings")

    assert list(tmp_path.rglob("*.jsonl")) == []
