# SPDX-License-Identifier: Apache-2.0
"""Kinds of task: each file here turns a spec's inputs into one payload.

A kind is a class of options (`agents.tasks.compute.options`), constructed from a spec's `options`.
It says what work it is before it does it (`Execution.allow`), reads nothing but what the spec
names, and depends on nothing else. A new kind is one new file that decorates its class with
`register("<file name>")` of `agents.tasks.compute.options`.
"""
