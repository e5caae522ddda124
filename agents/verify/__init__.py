# SPDX-License-Identifier: Apache-2.0
"""The rule: nothing that a node says about its work is believed; a verifier does it again.

This package does the verifying. Which way of verifying a job has is its sponsor's choice, a spec's
`verify`: see `agents.mechanisms.verify`, whose answers the code here asks.
"""
