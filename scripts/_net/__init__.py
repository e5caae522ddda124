# SPDX-License-Identifier: Apache-2.0
"""The rule: a network on this machine: anvil, compiled contracts, deployment, keys, processes."""
