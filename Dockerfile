# homefold serve on a CPU. docs/serving.md says how it is built and run.
ARG PYTHON=3.12

FROM python:${PYTHON}-slim AS wheel
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN python -m pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM python:${PYTHON}-slim AS packages
# Where pip finds torch for the CPU; without it the packages hold CUDA, some 4 GB of it.
ARG TORCH_INDEX=""
COPY --from=wheel /wheels /wheels
RUN python -m venv /opt/homefold \
    && set -- /wheels/homefold-*.whl \
    && /opt/homefold/bin/pip install --no-cache-dir ${TORCH_INDEX:+--extra-index-url="$TORCH_INDEX"} "$1[serve,timm]" \
    && /opt/homefold/bin/pip uninstall --yes pip

FROM python:${PYTHON}-slim
COPY --from=packages /opt/homefold /opt/homefold
# A number, so that Kubernetes sees that it is not root.
RUN useradd --create-home --uid 10001 homefold
USER 10001
ENV PATH=/opt/homefold/bin:$PATH HOMEFOLD_CACHE=/tmp/homefold PYTHONUNBUFFERED=1
EXPOSE 8765
HEALTHCHECK --interval=30s --timeout=5s --start-period=2m \
    CMD ["python", "-c", "from http.client import HTTPConnection as C; c = C('127.0.0.1', 8765, timeout=4); c.request('GET', '/healthz'); raise SystemExit(c.getresponse().status != 200)"]
# The model is mounted at /model. What follows the image's name takes the place of CMD: the names clients call it by.
ENTRYPOINT ["homefold", "serve", "/model", "--host", "0.0.0.0"]
CMD ["--allow-host", "localhost"]
