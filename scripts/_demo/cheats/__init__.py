# SPDX-License-Identifier: Apache-2.0
"""Dishonest nodes for demos and tests: `python -m scripts._demo.cheats noise --config FILE`.

Rule: a cheat is an ordinary trainer's or executor's process with one method replaced. It has its
own key, stake and settings, and the network is told nothing.
"""
