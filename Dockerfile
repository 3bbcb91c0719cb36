# The daemon. Built in two stages: the compiler and the build tools stay behind.
FROM python:3.13-slim AS build
RUN apt-get update && apt-get install --yes --no-install-recommends gcc libc6-dev \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY . .
RUN python -m venv /opt/sealcar \
    && SEALCAR_NATIVE=require /opt/sealcar/bin/pip install --no-cache-dir '.[server,cli]'

FROM python:3.13-slim
# a user of its own, whom no client is: that is what isolation = "uid" stands on
RUN groupadd --gid 10001 sealcar && useradd --uid 10001 --gid 10001 --no-create-home sealcar \
    && install -d -o 10001 -g 10001 -m 0700 /data /var/lib/sealcar \
    && install -d -o 10001 -g 10001 -m 0755 /sockets /run/sealcar
LABEL org.opencontainers.image.title=sealcar \
      org.opencontainers.image.licenses=Apache-2.0
COPY --from=build /opt/sealcar /opt/sealcar
ENV PATH=/opt/sealcar/bin:$PATH PYTHONDONTWRITEBYTECODE=1
USER 10001:10001
# SIGTERM drains; the exit code is 0
STOPSIGNAL SIGTERM
ENTRYPOINT ["sealcar"]
CMD ["serve"]
