# SPDX-License-Identifier: Apache-2.0
"""Dishonest trainers for demos and tests: `python -m scripts._cheats noise --config FILE`.

Rule: a cheat is an ordinary trainer process with one method replaced. It has its own key, stake and
settings, and the network is told nothing.
"""
