# SPDX-License-Identifier: Apache-2.0
"""The public audit: how a job's model came to be, derived again by somebody who trusts nobody.

Rule: the inputs are an RPC, a content store and a deployment file, nothing of an agent's. What the
contracts computed is computed again here in Python from their definitions, not asked of them; what
the agents computed is computed again by the agents' own functions on bytes that were verified
here. Everything that doesn't agree is one sentence that names the round, the node or the artefact,
what was found and what it should be.
"""
