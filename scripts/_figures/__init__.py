# SPDX-License-Identifier: Apache-2.0
"""Figures of papers, made again by this project's own functions, and the page that shows them."""
