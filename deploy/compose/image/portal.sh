#!/bin/sh
# The portal; without a provider, a page in its place that says what is missing.
set -eu
if [ -z "${DAGGERS_PORTAL_OIDC_ISSUER:-}" ] || [ -z "${DAGGERS_PORTAL_OIDC_CLIENT_ID:-}" ]; then
    exec python -IS /usr/local/lib/daggers/no_provider.py
fi
exec python -m portal
