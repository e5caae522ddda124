# SPDX-License-Identifier: Apache-2.0
"""The rule: what several commands share."""
