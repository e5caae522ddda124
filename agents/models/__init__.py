# SPDX-License-Identifier: Apache-2.0
"""The model that a job has trained, in the hands of somebody who uses it."""
