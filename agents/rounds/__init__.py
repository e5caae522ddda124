# SPDX-License-Identifier: Apache-2.0
"""What the chain and the store together say about a round, as every role reads it.

A role asks this package for the facts of a round, and decides itself what to do. Everything is
derived from public state, so two honest processes always get the same answer: the model, the plan,
the outcome, and who is spot-checked. `reader.RoundReader` is the one place that puts these
together.
"""
