# The default image with compilers for C and C++, and what Python extensions are built with.
ARG BASE=muster-sandbox:latest
FROM ${BASE}

USER root
COPY packages-cc.txt /tmp/build/
RUN apt-get update \
    && xargs -a /tmp/build/packages-cc.txt apt-get install -y --no-install-recommends \
    && rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/log/*.log /var/log/apt /tmp/build
USER 10001:10001
