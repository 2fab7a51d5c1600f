#!/usr/bin/env bash
# Installs the Chromium of the distribution, where it is missing and this may be done: for the browser in `make clients`.
set -euo pipefail

for name in chromium chromium-browser google-chrome; do
    if command -v "$name" >/dev/null; then
        exit 0
    fi
done
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    echo "chromium is not installed, and this user cannot install it: the package of the distribution has it" >&2
    exit 1
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends chromium >/dev/null
