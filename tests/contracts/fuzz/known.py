# SPDX-License-Identifier: Apache-2.0
"""What the search is known to find, and the item that mends it. This table may only shrink: whoever
mends an item takes out its rows, and a cause that is not here fails the test.

The items are those of the hostile reading of the contracts ("No profitable lie on chain")."""

KNOWN: dict[str, str] = {}
