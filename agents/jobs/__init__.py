# SPDX-License-Identifier: Apache-2.0
"""A job: its spec, with the mechanisms and the data that the spec names."""
