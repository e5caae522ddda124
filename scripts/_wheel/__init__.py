# SPDX-License-Identifier: Apache-2.0
"""The wheel: one package `menagerie` made of `agents` and `scripts`, and its one command."""
