#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Resolve pyproject.toml's dependencies and groups in an empty environment; write requirements.lock.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/python" - <<'PY' >"$work/direct.txt"
import tomllib

with open("pyproject.toml", "rb") as file:
    project = tomllib.load(file)
groups = project["dependency-groups"]
print(*project["project"]["dependencies"], *(d for g in groups.values() for d in g), sep="\n")
PY
"$work/venv/bin/python" -m pip install --quiet --requirement "$work/direct.txt"
{
    cat <<'HEADER'
# Exact versions of everything in pyproject.toml and its groups, for CPython 3.11 and 3.12.
# Made by `make lock`. torch carries no local version on purpose: pip takes the CPU or CUDA build
# that the package indexes it is configured with offer.
HEADER
    "$work/venv/bin/python" -m pip freeze --all |
        sed -E '/^pip==/d; s/^(torch==[^+]+)\+.*/\1/'
} >requirements.lock
