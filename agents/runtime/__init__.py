# SPDX-License-Identifier: Apache-2.0
"""What every agent needs, whatever its role: chain, wallet, feed, journal, loop, settings.

Rule: nothing here knows the training protocol, and nothing here imports torch or ape, so an
agent is ready within a few seconds and runs where only the Python package is installed.

A role reads the chain through `context.Context.chain`, acts through `.sender`, keeps what must
survive a crash in `.journal`, and is driven by `loop.Loop`; `context.run_agent` starts it all.
"""
