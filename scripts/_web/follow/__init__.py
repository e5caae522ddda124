# SPDX-License-Identifier: Apache-2.0
"""From the chain into the index: reads events, folds them, and takes back what a reorg removes."""
