#!/bin/sh
# Create the environment named by $1 and install the project with its test tools, at the versions
# of constraints.txt. Uses uv when it is there, else the interpreter's own venv and pip.
set -eu

venv=$1
python=${PYTHON:-}

recent() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; }

if [ -z "$python" ]; then
    for candidate in python3 python3.14 python3.13 python3.12 python3.11 python; do
        if recent "$candidate"; then python=$candidate; break; fi
    done
fi
if [ -z "$python" ] || ! recent "$python"; then
    echo "Windlass needs Python 3.11 or later; found ${python:-none}. Try: make PYTHON=/path/to/python3.11" >&2
    exit 1
fi

# The build back end is installed in an environment of its own; these pin it too.
export PIP_CONSTRAINT=constraints.txt PIP_BUILD_CONSTRAINT=constraints.txt
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore

if command -v uv >/dev/null 2>&1; then
    uv venv --quiet --allow-existing --python "$python" "$venv"
    uv pip install --quiet --compile-bytecode --python "$venv/bin/python" \
        --constraints constraints.txt --build-constraints constraints.txt --editable '.[test]'
    exit 0
fi

# Debian ships venv without ensurepip; the pip outside can then install into the environment.
if "$python" -m venv "$venv" >/dev/null 2>&1; then
    "$venv/bin/python" -m pip install --quiet --constraint constraints.txt --editable '.[test]'
else
    "$python" -m venv --without-pip "$venv"
    "$python" -m pip --python "$venv/bin/python" install --quiet \
        --constraint constraints.txt --editable '.[test]'
fi
