#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Every test but the kill matrix: what is pure or on titanoboa in parallel, then the lifecycle on
# anvil through ape. The networks of real processes, one at a time, run beside them, since they
# wait much of their time; their report is printed last.
# Arguments go to both runs of pytest: scripts/test.sh -k slash
set -eu
cd "$(dirname "${BASH_SOURCE[0]}")/.."

report=$(mktemp)
# The shell makes background jobs ignore Ctrl-C; this one must end its networks when it comes.
(trap - INT; exec pytest --quiet -m "not chaos" "$@" tests/e2e) >"$report" 2>&1 &
networks=$!
trap 'kill "$networks" 2>/dev/null || true; rm -f "$report"' EXIT

failed=0
pytest --quiet --numprocesses 2 --dist loadfile -m "not chaos" --ignore tests/e2e "$@" tests || failed=$?
[[ $# -gt 0 ]] || ape test tests/contracts/lifecycle || failed=$?
wait "$networks" || failed=$?
cat "$report"
exit "$failed"
