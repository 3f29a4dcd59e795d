# syntax=docker/dockerfile:1
# One image for agent, webhook and the command line.
#   docker build -t flotilla .
#   docker buildx build --platform linux/amd64,linux/arm64 -t flotilla .
# With PYTHON_DIGEST the base image is one and the same for everybody (docs/start/installation.md).

ARG PYTHON_DIGEST=
FROM python:3.11-slim${PYTHON_DIGEST:+@$PYTHON_DIGEST} AS build
WORKDIR /src
RUN python -m venv --without-pip /venv
# Dependencies first: they are a layer that changes less often than the code. pip takes only files whose hashes are
# written down, and runs no code of theirs.
COPY hack/image.txt hack/build.txt ./
RUN pip install --no-cache-dir --require-hashes --only-binary :all: -r build.txt \
    && pip --python /venv/bin/python install --no-cache-dir --require-hashes --only-binary :all: -r image.txt
COPY pyproject.toml README.md LICENSE ./
COPY agent agent
COPY webhook webhook
RUN pip wheel --no-cache-dir --no-index --no-deps --no-build-isolation --wheel-dir /wheels . \
    && pip --python /venv/bin/python install --no-cache-dir --no-index --no-deps /wheels/*.whl \
    && python -m compileall -q /venv/lib

FROM python:3.11-slim${PYTHON_DIGEST:+@$PYTHON_DIGEST}
LABEL org.opencontainers.image.title="flotilla" \
    org.opencontainers.image.description="Many Kubernetes clusters that work as one" \
    org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /venv /venv
ENV PATH=/venv/bin:/usr/local/bin:/usr/bin:/bin PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
# A number, so that runAsNonRoot can tell. It has no home, and nothing in the image is its own.
USER 65532:65532
ENTRYPOINT ["python", "-m"]
CMD ["agent"]
