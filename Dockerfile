# The daemon's image; with `--target client` an example of an application's; with `--target sbom` what
# the daemon's holds, as CycloneDX:
#
#   docker build --tag sealcar:0.1.0 .
#   docker build --target client --tag application .
#   docker build --target sbom --output type=local,dest=. .
#
# The base is pinned by its version. A release pins it by its digest too, and so is the same tomorrow:
#
#   docker buildx imagetools inspect --format '{{.Manifest.Digest}}' python:3.13-slim-trixie
#   docker build --build-arg BASE_DIGEST=sha256:… --build-arg REVISION=$(git rev-parse HEAD) .
ARG BASE=python:3.13-slim-trixie
ARG BASE_DIGEST=""

FROM ${BASE}${BASE_DIGEST:+@${BASE_DIGEST}} AS base
ENV PYTHONDONTWRITEBYTECODE=1

# the compiler, pip's cache and the build tools stay in this stage
FROM base AS build
# Debian keeps one version of a package, so naming it would only break tomorrow's build
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends gcc libc6-dev \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY requirements/build.txt requirements/image.txt requirements/
RUN python -m venv /build \
    && /build/bin/pip install --no-cache-dir --require-hashes --only-binary :all: --requirement requirements/build.txt
# without pip, which nobody needs who serves
RUN python -m venv --without-pip /opt/sealcar \
    && /build/bin/pip --python /opt/sealcar/bin/python install --no-cache-dir --require-hashes --only-binary :all: \
       --requirement requirements/image.txt
COPY pyproject.toml hatch_build.py README.md LICENSE ./
COPY proto proto
COPY client client
COPY server server
RUN SEALCAR_NATIVE=require /build/bin/python -m hatchling build --target wheel --directory /wheels \
    && /build/bin/pip --python /opt/sealcar/bin/python install --no-cache-dir --no-deps --no-index /wheels/*.whl
RUN mkdir -p /opt/sealcar/share/sbom \
    && /build/bin/cyclonedx-py environment --output-reproducible --pyproject pyproject.toml --mc-type application \
       --output-file /opt/sealcar/share/sbom/sealcar.cdx.json /opt/sealcar/bin/python

FROM scratch AS sbom
COPY --from=build /opt/sealcar/share/sbom/ /

# an application that loads its model from the daemon: no key, no cipher, and another user
FROM build AS client-build
COPY requirements/client.txt requirements/
RUN python -m venv --without-pip /opt/application \
    && /build/bin/pip --python /opt/application/bin/python install --no-cache-dir --require-hashes --only-binary :all: \
       --requirement requirements/client.txt \
    && /build/bin/pip --python /opt/application/bin/python install --no-cache-dir --no-deps --no-index /wheels/*.whl

FROM base AS client
ARG VERSION=0.1.0
ARG REVISION=""
LABEL org.opencontainers.image.title="sealcar example application" \
      org.opencontainers.image.description="A FastAPI server whose model comes from a sealcar daemon" \
      org.opencontainers.image.licenses=Apache-2.0 \
      org.opencontainers.image.version=${VERSION} \
      org.opencontainers.image.revision=${REVISION}
RUN groupadd --gid 1000 application \
    && useradd --uid 1000 --gid 1000 --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin application
COPY --from=client-build /opt/application /opt/application
COPY deploy/servers/fastapi_app.py /opt/application/app/
# whose daemon it is: the sockets' directory may be one that others can write
ENV PATH=/opt/application/bin:$PATH \
    ORT_DISABLE_TELEMETRY=1 \
    SEALCAR_SOCKET=/run/sealcar/default \
    SEALCAR_PEER_UID=10001
USER 1000:1000
EXPOSE 8080
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s \
    CMD ["python", "-c", "from urllib.request import urlopen; urlopen('http://127.0.0.1:8080/openapi.json')"]
CMD ["uvicorn", "--factory", "--host", "0.0.0.0", "--port", "8080", "--app-dir", "/opt/application/app", "fastapi_app:make"]

FROM base AS daemon
ARG BASE
ARG BASE_DIGEST
ARG VERSION=0.1.0
ARG REVISION=""
LABEL org.opencontainers.image.title=sealcar \
      org.opencontainers.image.description="Serves sealed ONNX Runtime models, keeps the keys" \
      org.opencontainers.image.licenses=Apache-2.0 \
      org.opencontainers.image.version=${VERSION} \
      org.opencontainers.image.revision=${REVISION} \
      org.opencontainers.image.base.name=${BASE} \
      org.opencontainers.image.base.digest=${BASE_DIGEST}
# a user of its own, whom no client is: that is what isolation = "uid" stands on
RUN groupadd --gid 10001 sealcar \
    && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin sealcar \
    && install -d -o 10001 -g 10001 -m 0700 /var/lib/sealcar \
    && install -d -o 10001 -g 10001 -m 0755 /run/sealcar \
    && install -d -m 0755 /etc/sealcar
COPY --from=build /opt/sealcar /opt/sealcar
# `init` and `serve` without a directory mean /var/lib/sealcar; probes ask the daemon beside them.
# Nothing else is ever written, so the root may be read-only
ENV PATH=/opt/sealcar/bin:$PATH \
    LD_BIND_NOW=1 \
    XDG_DATA_HOME=/var/lib \
    SEALCAR_SOCKET=/run/sealcar/default \
    SEALCAR_PEER_UID=10001
USER 10001:10001
EXPOSE 9464
# SIGTERM drains; the exit code is 0
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=10s \
    CMD ["sealcar", "status", "--probe", "--timeout", "4"]
ENTRYPOINT ["sealcar"]
CMD ["serve"]
