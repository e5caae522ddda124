# SPDX-License-Identifier: Apache-2.0
"""What every agent needs, whatever its role: chain, wallet, feed, journal, loop, settings.

No file here depends on the training protocol, and none imports torch or ape. So an agent starts
within a few seconds, and runs where only the Python package is installed.

A role reads the chain through `context.Context.chain`, acts through `.sender`, keeps what must
survive a crash in `.journal`, and is driven by `loop.Loop`; `context.run_agent` starts it all.
"""
