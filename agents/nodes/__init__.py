# SPDX-License-Identifier: Apache-2.0
"""The rule: how a node becomes a member of the network, and stays one."""
