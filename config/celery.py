"""Celery for the web side: it sends runs to GPU hosts by name, and one worker consumes the ``results`` queue.

No result backend: the row is the state. A message is only a wake-up; what is lost is found again by the reaper.
"""

from __future__ import annotations

import os

from celery import Celery

from gpu_runner import broker

broker.install()
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")

app = Celery("rendezvous")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks(["grading"])
# The current app is otherwise known to the importing thread alone, and views run in threads of their own.
app.set_default()
