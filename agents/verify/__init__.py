# SPDX-License-Identifier: Apache-2.0
"""Checking claims by doing the work again: spot checks, judging a result, near copies.

Which way of verifying a job has is its sponsor's choice, the field `verify` of a spec: see
`agents.mechanisms.verify`, whose answers the code here asks for.
"""
