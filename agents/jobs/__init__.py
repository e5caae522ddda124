# SPDX-License-Identifier: Apache-2.0
"""The rule: a job is its spec with the mechanisms and the data that the spec names."""
