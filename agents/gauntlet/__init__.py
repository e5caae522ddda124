# SPDX-License-Identifier: Apache-2.0
"""The Gauntlet: validators measure what each update does to the loss, and train nothing again."""
