# One image for every component: `waterclock up` by default, or `waterclock scheduler | executor | projector | api`.
ARG PYTHON_IMAGE=python:3.11-slim
FROM ${PYTHON_IMAGE} AS build
WORKDIR /source
RUN python -m venv /opt/waterclock
COPY requirements.lock .
RUN /opt/waterclock/bin/pip install --no-cache-dir --no-deps --require-hashes -r requirements.lock
COPY pyproject.toml README.md LICENSE ./
COPY deploy/package_readme.py deploy/
COPY docs/man docs/man
COPY proto proto
COPY core core
COPY scheduler scheduler
COPY executor executor
COPY projector projector
COPY api api
RUN /opt/waterclock/bin/pip install --no-cache-dir --no-deps --no-build-isolation .

FROM ${PYTHON_IMAGE}
RUN useradd --create-home --uid 10001 waterclock && install -d -o waterclock -g waterclock -m 0700 /data
COPY --from=build /opt/waterclock /opt/waterclock
ENV PATH=/opt/waterclock/bin:$PATH \
    WATERCLOCK_DATA=/data \
    WATERCLOCK_HOST=0.0.0.0
USER waterclock
WORKDIR /data
VOLUME /data
EXPOSE 8080
STOPSIGNAL SIGTERM
ENTRYPOINT ["waterclock"]
CMD ["up"]
