# SPDX-License-Identifier: Apache-2.0
"""What privacy mechanisms are built of. No file here imports `agents.mechanisms.privacy` itself."""
