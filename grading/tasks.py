"""Tasks of the ``results`` queue. Each is one line; what it does stands in ``grading.runs`` and ``grading.reaper``.

Arguments that are not known are ignored, so that hosts and web may be brought up to date one after the other.
"""

from __future__ import annotations

from typing import Any

from celery import shared_task

from gpu_runner.protocol import RECORD_EVENT_TASK, RECORD_RESULT_TASK
from grading import reaper, runs


@shared_task(name=RECORD_EVENT_TASK)
def record_event(event: object = None, attempt: int = 0, token: str = "", **_: Any) -> None:
    runs.record_event(event, attempt=attempt, token=token)


@shared_task(name=RECORD_RESULT_TASK)
def record_result(result: object = None, **_: Any) -> None:
    runs.record_result(result)


@shared_task(name="grading.reap_runs")
def reap_runs(**_: Any) -> None:
    reaper.reap_runs()
