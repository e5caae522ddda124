# SPDX-License-Identifier: Apache-2.0
"""Where the audit reads (chain, receipts, store), and how it words what it finds."""
