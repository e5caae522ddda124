# SPDX-License-Identifier: Apache-2.0
"""The rule: how a redundant task is computed. Nothing here knows a chain.

A node runs it in a process of its own, so a task cannot disturb the agent.
"""
