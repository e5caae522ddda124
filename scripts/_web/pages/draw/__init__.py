# SPDX-License-Identifier: Apache-2.0
"""Pictures as inline SVG, each a pure function of numbers; colours come from the style sheet."""
