# Two images from one file: `--target gateway` (no torch) and `--target inference`.
# Both run as user 10001, keep all state in /state and need no other writable folder than that and /tmp.

ARG PYTHON=3.12
FROM python:${PYTHON}-slim AS base
ENV PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 \
    SPECGATE_HOME=/state
RUN useradd --uid 10001 --user-group --no-create-home specgate \
    && install -d -o specgate -g specgate -m 0700 /state
WORKDIR /app
COPY requirements.lock pyproject.toml README.md ./

FROM base AS gateway
COPY storage storage
COPY inference inference
COPY gateway gateway
RUN pip install --constraint requirements.lock '.[gateway]' && rm -rf /app/*
USER 10001:10001
VOLUME /state
EXPOSE 8000 8001
HEALTHCHECK --interval=5s --timeout=3s --start-period=30s \
    CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8000/livez')"]
CMD ["specgate", "serve"]

FROM base AS inference
# Which build of torch: an index of CPU builds; `--build-arg TORCH_INDEX=` takes pip's own index, which has CUDA builds.
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
RUN pip install ${TORCH_INDEX:+--index-url "$TORCH_INDEX"} "$(grep '^torch==' requirements.lock)"
COPY storage storage
COPY inference inference
COPY gateway gateway
RUN pip install --constraint requirements.lock '.[inference]' && rm -rf /app/*
USER 10001:10001
VOLUME /state
EXPOSE 8100
# The worker listens on the container's own name, never on all addresses.
HEALTHCHECK --interval=5s --timeout=3s --start-period=120s \
    CMD ["python", "-c", "import socket, urllib.request as r; r.urlopen(f'http://{socket.gethostname()}:8100/livez')"]
CMD ["python", "-m", "inference", "--help"]
