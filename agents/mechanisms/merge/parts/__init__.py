# SPDX-License-Identifier: Apache-2.0
"""What merge rules are built of. No file here imports `agents.mechanisms.merge` itself."""
