# SPDX-License-Identifier: Apache-2.0
"""A network on this machine: anvil, compiled contracts, deployment, keys, processes."""
