# SPDX-License-Identifier: Apache-2.0
"""The rule: nothing that a node says about its work is believed; a verifier does it again."""
