"""``python -m gpu_runner.bench`` measures the runner."""

import sys

from gpu_runner.bench.runner import main

sys.exit(main())
