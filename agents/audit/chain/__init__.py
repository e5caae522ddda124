# SPDX-License-Identifier: Apache-2.0
"""What must add up on the chain alone, whoever did the work."""
