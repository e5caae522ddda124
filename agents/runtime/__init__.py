# SPDX-License-Identifier: Apache-2.0
"""What every agent needs, whatever its role: chain, wallet, feed, journal, loop, settings.

Rule: nothing here knows the training protocol, and nothing here imports torch or ape, so an
agent is ready within a few seconds and runs where only the Python package is installed.
"""
