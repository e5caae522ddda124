# SPDX-License-Identifier: Apache-2.0
"""How a redundant task is computed, without a chain.

A node runs this in a process of its own, so that a task cannot disturb the agent.
"""
