# SPDX-License-Identifier: Apache-2.0
"""The rule: nothing a node says about its work is believed; each file is one thing to check."""
