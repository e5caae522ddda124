#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Every test but the kill matrix. The networks of real processes wait for blocks most of the time:
# they run beside what computes, which is what is pure or on titanoboa, then the lifecycle on anvil
# through ape.
# Arguments go to pytest: scripts/test.sh -k slash
set -eu
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# pytest ends with 5 when the arguments leave it no test.
some() { "$@" || { [[ $? -eq 5 ]] && [[ $extra -gt 0 ]]; }; }
extra=$#

# A process that dies fails its test and ends the run. With --dist loadfile its successor would
# begin the same file, die again, and the run would never end.
parallel=(pytest --quiet --numprocesses 2 --max-worker-restart 0 -m "not chaos")
# Files in the order found: those with few tests are the slow ones, and must not be begun last.
by_file=("${parallel[@]}" --dist loadfile --no-loadscope-reorder)
machines=tests/contracts/stateful

said=$(mktemp)
set -m # a process group of its own, so that all of it can be ended
some "${by_file[@]}" "$@" tests/e2e >"$said" 2>&1 &
networks=$!
set +m
trap 'kill -- "-$networks" 2>/dev/null || true; wait; rm -f "$said"' EXIT

# The state machines first and by themselves. Hypothesis takes its examples from the modules that
# are loaded too, so their histories are the same in every run.
some "${parallel[@]}" --dist load "$@" $machines
some "${by_file[@]}" --ignore tests/e2e --ignore $machines "$@" tests
if [[ $extra -eq 0 ]]; then
    ape test tests/contracts/lifecycle
    # Every command that signs would read again what ape has compiled: 13 MB, 1.7 s.
    rm -f .build/__local__.json
fi
failed=0
wait "$networks" || failed=$?
cat "$said"
exit "$failed"
