# SPDX-License-Identifier: Apache-2.0
"""The quality of training by codec, beside the peers' anchors (`docs/quality.md`)."""
