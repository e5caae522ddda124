#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Every test but the kill matrix: what is pure or on titanoboa in parallel, then the lifecycle on
# anvil through ape, then the networks of real processes, one at a time.
# Arguments go to the first and the last: scripts/test.sh -k slash
set -eu
cd "$(dirname "${BASH_SOURCE[0]}")/.."

pytest --quiet --numprocesses 2 --dist loadfile -m "not chaos" --ignore tests/e2e "$@" tests
[[ $# -gt 0 ]] || ape test tests/contracts/lifecycle
pytest --quiet -m "not chaos" "$@" tests/e2e
