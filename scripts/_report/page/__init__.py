# SPDX-License-Identifier: Apache-2.0
"""The page of a run: one HTML file that needs no network. A file here is a part of the page."""
