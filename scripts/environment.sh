#!/usr/bin/env bash
# Finds a Python that can make the environment and hands over to environment.py. Knows nothing of what is installed.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

usable() {
    # A name on PATH may be a shim without a version behind it, and a distribution may have split venv off.
    "$1" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

if [ -n "${PYTHON:-}" ]; then
    usable "$PYTHON" || {
        echo "PYTHON=$PYTHON is not a Python 3.11 or newer with venv and ensurepip." >&2
        exit 2
    }
    exec "$PYTHON" "$here/environment.py" --explicit "$@"
fi
for candidate in "${VENV:-.venv}/bin/python" python3 python3.13 python3.12 python3.11 python3.14 python; do
    if usable "$candidate"; then
        exec "$candidate" "$here/environment.py" "$@"
    fi
done
echo "No Python 3.11 or newer with venv was found on PATH. Install one (Debian: apt-get install python3 python3-venv) or name it: make PYTHON=/path/to/python3" >&2
exit 2
