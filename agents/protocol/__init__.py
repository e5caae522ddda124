# SPDX-License-Identifier: Apache-2.0
"""The contracts, as Python sees them. No file here decides anything, and none needs torch."""
