# SPDX-License-Identifier: Apache-2.0
"""The read API over the index, and what it does to be served to strangers."""
