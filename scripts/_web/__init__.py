# SPDX-License-Identifier: Apache-2.0
"""The web page: an index of the chain in a database, an API over it, and pages made here."""
