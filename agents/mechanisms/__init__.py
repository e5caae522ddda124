# SPDX-License-Identifier: Apache-2.0
"""The rule: what a sponsor chooses by name. A file of a folder here is the choice of its name.

Nothing here knows a chain, a file or a clock: tensors and numbers go in, tensors and numbers out.
"""
