# SPDX-License-Identifier: Apache-2.0
"""What attacks bring at a network's parameters: the compiled contracts, without a chain."""
