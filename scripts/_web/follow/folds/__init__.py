# SPDX-License-Identifier: Apache-2.0
"""What each event of the contracts changes in the index: one file for each group of contracts."""
