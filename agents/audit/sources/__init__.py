# SPDX-License-Identifier: Apache-2.0
"""The rule: where the audit reads (chain, receipts, store), and what it says of what it finds."""
