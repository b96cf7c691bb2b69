# Two images. One for all components, for reservation pods and for Redis:
#
#   docker build -t kai-scheduler:dev .
#   docker build -t kai-scheduler:dev --build-arg BASE_IMAGE=registry.example.com/python:3.12-slim .
#
# and the same with a cluster in a box (kai_local), for docker-compose.yml:
#
#   docker build -t kai-scheduler-local:dev --target local .
#
# The base needs Python 3.11 or newer with venv, nothing else.
ARG BASE_IMAGE=python:3.11-slim

FROM ${BASE_IMAGE} AS product
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /src
RUN python3 -m venv /opt/kai
COPY requirements-image.lock slim.py ./
# In the same layer as what is taken out again: it is never stored. The image comes to 490 MiB on a disk instead of 780,
# of which LLVM, without which nothing runs that Numba has compiled, is 155. What is imported keeps its compiled form
# beside it, so that processes start as quickly.
RUN /opt/kai/bin/pip install --require-hashes --only-binary=:all: -r requirements-image.lock \
    && /opt/kai/bin/python slim.py "$(/opt/kai/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')"
COPY pyproject.toml README.md LICENSE ./
COPY libs/kai libs/kai
COPY services services
RUN /opt/kai/bin/pip install --no-deps --no-build-isolation .
# Numba writes where it reads its cache, but the root file system is read-only: what is compiled here the scheduler
# copies to a writable place when it starts (kai.runtime.compiled). Numba knows by the time of the source whether that
# is current, and layers keep whole seconds only.
RUN mkdir /opt/kai/numba \
    && find /opt/kai/lib -path '*/kai/engine/packing/compiled.py' -exec sh -c 'touch -d "@$(stat -c %Y "$0")" "$0"' {} \; \
    && NUMBA_CACHE_DIR=/opt/kai/numba /opt/kai/bin/python -m kai.engine.packing.warm

FROM product AS product-in-a-box
COPY requirements-local.lock ./
RUN /opt/kai/bin/pip install --require-hashes --only-binary=:all: -r requirements-local.lock \
    && /opt/kai/bin/python slim.py "$(/opt/kai/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')" \
    && /opt/kai/bin/pip uninstall --yes pip
COPY libs/kai_local libs/kai_local
# Beside `kai`, which is not installed anew: what Numba has compiled is known by the time of its source.
RUN packages="$(/opt/kai/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')" \
    && cp -r libs/kai_local "$packages" \
    && /opt/kai/bin/python -m compileall -q "$packages/kai_local"
COPY helm/kai-scheduler/crds /opt/kai/share/kai-scheduler/crds

FROM product AS product-alone
RUN /opt/kai/bin/pip uninstall --yes pip

# What each image is made of, as CycloneDX. What lists it is in none of them. The build fails where something
# is installed that no lock names.
FROM ${BASE_IMAGE} AS inventory-tool
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /src
RUN python3 -m venv /opt/inventory
COPY requirements-sbom.lock ./
RUN /opt/inventory/bin/pip install --require-hashes --only-binary=:all: -r requirements-sbom.lock
COPY sbom.py ./

FROM inventory-tool AS inventory
COPY requirements-image.lock ./
COPY --from=product-alone /opt/kai /opt/kai
RUN site="$(/opt/kai/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')" \
    && /opt/inventory/bin/python -m sbom --lock requirements-image.lock --site "$site" --root / --exact --output /sbom.cdx.json

FROM inventory-tool AS inventory-in-a-box
COPY requirements-local.lock ./
COPY --from=product-in-a-box /opt/kai /opt/kai
RUN site="$(/opt/kai/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')" \
    && /opt/inventory/bin/python -m sbom --lock requirements-local.lock --site "$site" --root / --exact --output /sbom.cdx.json

# Nobody reads manuals in a container, in no language, nor makes an environment of Python there. Licences stay.
FROM ${BASE_IMAGE} AS root
RUN find /usr/share/doc -type f ! -name copyright -delete \
    && rm -rf /usr/share/man /usr/share/info /usr/share/locale /usr/share/python-wheels /usr/share/bash-completion \
        /usr/lib/python3*/ensurepip /usr/lib/python3*/lib2to3 /usr/lib/python3*/pydoc_data /usr/lib/python3*/test \
        /usr/local/lib/python3*/ensurepip /usr/local/lib/python3*/lib2to3 /usr/local/lib/python3*/pydoc_data \
        /usr/local/lib/python3*/idlelib /usr/local/lib/python3*/site-packages/pip* \
    # Conversions of iconv(3), of which nothing here knows: Python brings its own.
    && rm -rf /usr/lib/*/gconv

# A layer over the base would hide what is gone, and not be smaller; so it is copied, and what the base said of its
# environment said again.
FROM scratch AS runtime
COPY --from=root / /
ENV PATH=/opt/kai/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    LANG=C.UTF-8 \
    HOME=/tmp \
    NUMBA_CACHE_DIR=/tmp/numba \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
# For docker-compose: volumes take over the mode of the folder that they cover.
RUN mkdir --mode=1777 /embedded /cluster /certificates /redis /history
USER 10000:10000
WORKDIR /tmp

FROM runtime AS local
COPY --from=product-in-a-box /opt/kai /opt/kai
COPY --from=inventory-in-a-box /sbom.cdx.json /opt/kai/share/kai-scheduler/sbom.cdx.json

# The last one is what is built where no target is named.
FROM runtime AS services
COPY --from=product-alone /opt/kai /opt/kai
COPY --from=inventory /sbom.cdx.json /opt/kai/share/kai-scheduler/sbom.cdx.json
# Pods that hold a shared GPU name no command; all others do.
CMD ["python", "-m", "kai_resource_reservation"]
