#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Every test but the kill matrix: what is pure or on titanoboa in parallel, then the lifecycle on
# anvil through ape, then the networks of real processes, one at a time.
# Arguments go to pytest: scripts/test.sh -k slash
set -eu
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# pytest ends with 5 when the arguments leave it no test.
some() { "$@" || { [[ $? -eq 5 ]] && [[ $extra -gt 0 ]]; }; }
extra=$#

parallel=(pytest --quiet --numprocesses 2 -m "not chaos")
machines=tests/contracts/stateful
# The state machines first and by themselves. Hypothesis takes its examples from the modules that
# are loaded too, so their histories are the same in every run; and each takes a minute, so that one
# of them begun last would leave the other process without work.
some "${parallel[@]}" --dist load "$@" $machines
some "${parallel[@]}" --dist loadfile --no-loadscope-reorder --ignore tests/e2e --ignore $machines "$@" tests
[[ $extra -gt 0 ]] || ape test tests/contracts/lifecycle
some "${parallel[@]}" --dist loadfile --no-loadscope-reorder "$@" tests/e2e
