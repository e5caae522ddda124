# SPDX-License-Identifier: Apache-2.0
"""The rule: the contracts, as Python sees them. Nothing here decides, and nothing needs torch."""
