# SPDX-License-Identifier: Apache-2.0
"""The rule: validators measure what each update does to the loss; nobody's work is redone."""
