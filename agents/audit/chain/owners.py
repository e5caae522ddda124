# SPDX-License-Identifier: Apache-2.0
"""Who owns each contract: the changes follow each other, and the last is what the contract says."""

from __future__ import annotations

from agents.audit.sources.findings import Part
from agents.audit.sources.record import Record
from agents.protocol.numbers import NOBODY


def check_owners(record: Record, part: Part) -> None:
    """Follow every change of owner of every contract that has one."""
    known = {one.address: one for one in record.contracts if one.address in record.owners}
    owners = dict.fromkeys(known, NOBODY)
    for event in record.all("OwnershipTransferred"):
        contract = known.get(event.address)
        if contract is None:
            continue
        args, was = event.args, owners[event.address]
        part.same("job", contract.name, "its owner before a change", args["previous_owner"], was)
        owners[event.address] = args["new_owner"]
    for address, owner in owners.items():
        kept = record.owners[address]
        part.same("job", known[address].name, "its owner", kept, owner)
