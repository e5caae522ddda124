# SPDX-License-Identifier: Apache-2.0
"""Menagerie: agents that train one model together, and the parts they are made of."""
