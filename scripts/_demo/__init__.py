# SPDX-License-Identifier: Apache-2.0
"""The demos, from the network they need to the report they leave."""
