# SPDX-License-Identifier: Apache-2.0
"""Inner optimizers: what a node does with its batches; each file here is one, named as in the spec.

`optimizer.inner: adamw` in a spec is the file `adamw.py` of this folder. What one must offer is in
`agents.training.optimizers`. A new one is one new file, which decorates its class with
`register("<file name>")`.
"""
