# SPDX-License-Identifier: Apache-2.0
"""The pages, rendered on the server: words, drawings, templates, and the style sheet."""
