# SPDX-License-Identifier: Apache-2.0
"""What attacks bring at a network's parameters: played on the compiled contracts."""
