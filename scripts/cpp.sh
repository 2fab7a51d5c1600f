#!/usr/bin/env bash
# Installs what the C++ client is built with, of the distribution, where it is missing and this may be done: for `make clients`.
set -euo pipefail

packages=(g++ cmake ninja-build pkg-config libgrpc++-dev libprotobuf-dev protobuf-compiler protobuf-compiler-grpc nlohmann-json3-dev libgtest-dev)
missing=()
for package in "${packages[@]}"; do
    if ! command -v dpkg-query >/dev/null || [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" != installed ]; then
        missing+=("$package")
    fi
done
if [ ${#missing[@]} = 0 ]; then
    exit 0
fi
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    echo "what the C++ client is built with is not installed, and this user cannot install it: ${missing[*]}" >&2
    exit 1
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
