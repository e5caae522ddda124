# SPDX-License-Identifier: Apache-2.0
"""Work that the audit does again from published bytes, to compare it with what was claimed."""
