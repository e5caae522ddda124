# SPDX-License-Identifier: Apache-2.0
"""The public audit: how a job's model came to be, derived again by somebody who trusts nobody.

Its inputs are an RPC node, a content store and a deployment file; it reads nothing of an agent's.
What the contracts computed is computed again here in Python from their definitions. What the agents
computed is computed again by the agents' own functions, on bytes that were verified here. Each
difference is one sentence: the round, the node or artefact, what was found and what it should be.
"""
