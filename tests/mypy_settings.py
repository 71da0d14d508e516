"""Settings for the type checker, which loads them without running anything."""

import os

os.environ.update(
    RENDEZVOUS_SECRET_KEY="only-for-the-type-checker-0123456789abcdef",
    RENDEZVOUS_DATABASE_URL="sqlite:///:memory:",
    RENDEZVOUS_REDIS_URL="redis://127.0.0.1:1/0",
    RENDEZVOUS_BASE_URL="http://testserver",
)

from config.settings import *  # noqa: F403
