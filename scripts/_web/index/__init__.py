# SPDX-License-Identifier: Apache-2.0
"""The index: every event of the contracts in a database, and the state that follows from them.

Rule: it is a cache. Everything in it can be had again from the chain, and deleting it loses
nothing.
"""
