# SPDX-License-Identifier: Apache-2.0
"""The rule: what must add up on the chain alone, whoever did the work."""
