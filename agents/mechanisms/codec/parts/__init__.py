# SPDX-License-Identifier: Apache-2.0
"""What codecs are built of. No file here imports `agents.mechanisms.codec` itself."""
