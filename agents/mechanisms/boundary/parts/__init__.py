# SPDX-License-Identifier: Apache-2.0
"""What boundaries are built of. No file here imports `agents.mechanisms.boundary` itself."""
