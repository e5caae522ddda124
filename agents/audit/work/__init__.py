# SPDX-License-Identifier: Apache-2.0
"""The rule: work that the audit does again from published bytes, to compare with what was said."""
