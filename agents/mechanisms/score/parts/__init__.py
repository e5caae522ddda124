# SPDX-License-Identifier: Apache-2.0
"""What scoring rules are built of. No file here imports `agents.mechanisms.score` itself."""
