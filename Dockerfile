# Two images from one file: `web` (pages, results worker, scheduler) and `gpu-host` (the worker with its sandbox).
# docs/install.md says how to run them, and what of this has been tried.

FROM node:22-bookworm-slim AS front-end
WORKDIR /app
COPY package.json package-lock.json ./
RUN npm ci --ignore-scripts --no-audit --no-fund
# The icons that the bundle holds are named in templates and in Python as well.
COPY static static
COPY templates templates
COPY interviews interviews
COPY grading grading
RUN npm run build


FROM python:3.11-slim-bookworm AS project
ENV PYTHONUNBUFFERED=1 PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /app
COPY requirements requirements
RUN python -m venv .venv \
    && .venv/bin/pip install -r requirements/project.in -c requirements/lock.txt


FROM project AS web
COPY manage.py ./
COPY config config
COPY interviews interviews
COPY grading grading
COPY gpu_runner/__init__.py gpu_runner/protocol.py gpu_runner/
COPY templates templates
COPY static static
COPY --from=front-end /app/static/dist static/dist
# Collecting reads no database and sends nothing; the values only have to be well-formed.
RUN RENDEZVOUS_SECRET_KEY=only-for-collecting-static-files-0123456789 \
    RENDEZVOUS_DATABASE_URL=sqlite:////tmp/none.sqlite3 \
    RENDEZVOUS_REDIS_URL=redis://127.0.0.1:1/0 \
    RENDEZVOUS_BASE_URL=https://localhost \
    .venv/bin/python manage.py collectstatic --no-input --verbosity 0 \
    && useradd --system --create-home rendezvous \
    && mkdir -p var/schedule \
    && chown -R rendezvous var
USER rendezvous
EXPOSE 8000
CMD [".venv/bin/python", "-m", "uvicorn", "config.asgi:application", "--host", "0.0.0.0", "--port", "8000", \
     "--lifespan", "off", "--proxy-headers", "--timeout-graceful-shutdown", "10"]


FROM project AS gpu-host
RUN apt-get update \
    && apt-get install -y --no-install-recommends runc libseccomp2 \
    && rm -rf /var/lib/apt/lists/*
RUN python -m venv .venv-sandbox \
    && .venv-sandbox/bin/pip install -r requirements/sandbox.txt
COPY gpu_runner gpu_runner
CMD [".venv/bin/python", "-m", "gpu_runner.worker"]
