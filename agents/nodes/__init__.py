# SPDX-License-Identifier: Apache-2.0
"""How a node becomes a member of the network: registration and benchmark."""
