#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Set-up: .venv from requirements.lock, an anvil that knows the EIP-7825 gas cap, and the web page's script.
# Each part is done once per version of its inputs (stamps hold their hash). pip and npm keep the
# indexes the user configured them with. A missing prerequisite is named with its remedy.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

ANVIL_VERSION=1.7.1
# mamushi, the Vyper formatter, pins an older click than ape needs and works with ape's.
MAMUSHI_VERSION=0.1.2
# uv installs the lock in seconds; it gets what pip is configured with (scripts/_setup/uv.py).
UV_VERSION=0.13.9

fail() {
    echo "setup: $*" >&2
    exit 1
}

# Run a long command with its output in a log, shown only when it fails.
quietly() {
    local log=$1
    shift
    mkdir -p "$(dirname "$log")"
    "$@" >"$log" 2>&1 || {
        tail -n 20 "$log" >&2
        fail "\`$*\` failed; the whole output is in $log."
    }
}

# Run it with its progress in view where somebody looks on, else quietly.
shown() {
    if [[ -t 2 ]]; then
        "${@:2}" || fail "\`${*:2}\` failed."
    else
        quietly "$@"
    fi
}

is_supported() {
    "$1" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 12))' 2>/dev/null
}

find_python() {
    local candidate
    for candidate in ${PYTHON:-python3 python3.12 python3.11}; do
        if command -v "$candidate" >/dev/null && is_supported "$candidate"; then
            command -v "$candidate"
            return
        fi
    done
    fail "Python 3.11 or 3.12 was not found; install one, or name it: make PYTHON=/path/to/python3.11"
}

setup_python() {
    local python digest stamp
    digest=$({ cat requirements.lock; echo "$MAMUSHI_VERSION $UV_VERSION"; } | cksum | cut -d' ' -f1)
    stamp=.venv/.installed-$digest
    [[ -e $stamp ]] && return
    python=$(find_python)
    "$python" -c 'import ensurepip, venv' 2>/dev/null ||
        fail "$python has no venv module; install it (Debian, Ubuntu: apt install python3-venv)."
    echo "setup: installing the pinned Python packages into .venv (2.3 GB, with an NVIDIA driver 4.5 GB more; 20 s to a few minutes) ..."
    [[ -x .venv/bin/python ]] && is_supported .venv/bin/python || "$python" -m venv --clear .venv
    quietly .build/setup/pip.log .venv/bin/python -m pip install \
        --disable-pip-version-check --no-compile "uv==$UV_VERSION"
    shown .build/setup/uv.log .venv/bin/python scripts/_setup/uv.py --requirement requirements.lock
    quietly .build/setup/mamushi.log .venv/bin/python scripts/_setup/uv.py --no-deps \
        "mamushi==$MAMUSHI_VERSION"
    echo "setup: compiling them (half a minute) ..."
    # Not the packages' own tests, the installer, and a library's models: a third of all, of which
    # next to nothing is loaded. What is, Python compiles then.
    # Some packages ship files for other versions of Python, which do not compile; nothing loads them.
    .venv/bin/python -m compileall -q -j 0 -x '/(tests?|testing|pip)/|/transformers/models/' \
        .venv/lib >.build/setup/compile.log 2>&1 || true
    rm -f .venv/.installed-*
    touch "$stamp"
}

has_gas_cap() {
    "$1" --help 2>/dev/null | grep -q -- --enable-tx-gas-limit
}

# The binary itself, never npm's Node wrapper: a killed wrapper leaves its anvil running.
is_binary() {
    [[ -x $1 && $(head -c 2 "$1" | tr -d '\0') != '#!' ]]
}

npm_platform() {
    local system machine
    system=$(uname -s | tr '[:upper:]' '[:lower:]')
    machine=$(uname -m)
    case $machine in
    x86_64) machine=amd64 ;;
    aarch64) machine=arm64 ;;
    esac
    echo "$system-$machine"
}

setup_anvil() {
    local found real
    [[ -x tools/bin/anvil ]] && return
    mkdir -p tools/bin
    if found=$(command -v anvil) && real=$(readlink -f "$found") &&
        is_binary "$real" && has_gas_cap "$real"; then
        ln -sf "$real" tools/bin/anvil
        return
    fi
    command -v npm >/dev/null ||
        fail "anvil was not found, nor npm to install it; install Node.js 18 or newer, or put anvil $ANVIL_VERSION on PATH (https://getfoundry.sh)."
    echo "setup: installing anvil $ANVIL_VERSION into tools/ ..."
    quietly .build/setup/npm.log npm install --prefix tools --no-save --no-audit --no-fund \
        "@foundry-rs/anvil@$ANVIL_VERSION"
    real=$PWD/tools/node_modules/@foundry-rs/anvil-$(npm_platform)/bin/anvil
    is_binary "$real" || fail "npm installed no anvil for $(npm_platform); put anvil $ANVIL_VERSION on PATH (https://getfoundry.sh)."
    ln -sf "$real" tools/bin/anvil
}

# The part of the web page that runs in the browser. The page is whole without it, so what is missing
# here stops nothing.
setup_island() {
    local digest stamp source=scripts/_web/island built=scripts/_web/pages/static/island
    # With the names: a file that was moved is another island.
    digest=$(cd "$source" && find package.json package-lock.json .npmrc build.mjs tsconfig.json src -type f |
        LC_ALL=C sort | xargs cksum | cksum | cut -d' ' -f1)
    stamp=.build/setup/island-$digest
    [[ -e $stamp && -e $built/main.js ]] && return
    if ! command -v npm >/dev/null; then
        echo "setup: npm was not found, so the web page has no wallet and no live parts; everything else works. Install Node.js 18 or newer, then run \`make setup\` again." >&2
        return
    fi
    echo "setup: building the web page's script ..."
    mkdir -p .build/setup
    if ! (cd "$source" && npm ci --ignore-scripts --no-audit --no-fund && npm run build) >.build/setup/island.log 2>&1; then
        tail -n 20 .build/setup/island.log >&2
        echo "setup: the web page's script was not built, so the page has no wallet and no live parts; everything else works. The whole output is in .build/setup/island.log." >&2
        return
    fi
    rm -f .build/setup/island-*[0-9]
    touch "$stamp"
}

# They share nothing; npm waits for the network while uv unpacks.
setup_anvil &
anvil=$!
setup_island &
island=$!
setup_python
wait "$anvil"
wait "$island"
