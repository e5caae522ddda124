#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Every test but the kill matrix. Networks of real processes wait for blocks most of the time, and
# browsers for pages: they, and the lifecycle on anvil through ape, run one after the other beside
# what computes, which is what is pure or on titanoboa.
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
# Nothing here runs a contract in Python. Titanoboa's plugin takes each process a second to load.
waiting=("${by_file[@]}" -p no:boa_test)
machines=tests/contracts/stateful

# In a project of its own: ape keeps what it has compiled, 13 MB, in the project's .build, and every
# command that signs beside it would read that for 1.7 s. At a port of ours: ape draws one that an
# outgoing connection may have, and then waits in vain for its anvil.
lifecycle() {
    local project port failed=0
    port=$(python -c 'from scripts._net.ports import free_port; print(free_port())')
    project=$(mktemp -d)
    ln -s "$PWD"/{agents,contracts,interfaces,scripts,tests,ape-config.yaml} "$project"
    (cd "$project" && APE_FOUNDRY_HOST=http://127.0.0.1:$port ape test tests/contracts/lifecycle) ||
        failed=$?
    rm -rf "$project"
    return "$failed"
}
beside() {
    local failed=0
    some "${waiting[@]}" "$@" tests/e2e || failed=$?
    [[ $extra -gt 0 ]] || lifecycle || failed=$?
    some "${waiting[@]}" "$@" tests/web || failed=$?
    return "$failed"
}

said=$(mktemp)
set -m # a process group of its own, so that all of it can be ended
beside "$@" >"$said" 2>&1 &
beside=$!
set +m
trap 'kill -- "-$beside" 2>/dev/null || true; wait; rm -f "$said"' EXIT

# The state machines first and by themselves. Hypothesis takes its examples from the modules that
# are loaded too, so their histories are the same in every run.
failed=0
some "${parallel[@]}" --dist load "$@" $machines || failed=$?
some "${by_file[@]}" --ignore tests/e2e --ignore tests/web --ignore $machines "$@" tests || failed=$?
wait "$beside" || failed=$?
cat "$said"
exit "$failed"
