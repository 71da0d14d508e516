"""Tasks of the ``results`` queue. Each is one line; what it does stands in ``grading.runs``."""
