# SPDX-License-Identifier: Apache-2.0
"""Who committed and revealed what, and that each reveal opens its own commitment.

Rule: a commitment binds chain, contract, job, round, node, sender, input, content, trace and salt.
All of them but the salt are public; the salt is in the transaction of the reveal. So the digest is
made again here, and compared with the one that was stored before anybody had published anything.
"""

from __future__ import annotations

from agents.audit.chain.opening import Opened
from agents.audit.chain.stakes import StakeBook
from agents.audit.sources.findings import Part
from agents.audit.sources.record import Record, place
from agents.protocol import formulas
from agents.protocol.numbers import ZERO_DIGEST
from agents.protocol.structs import Reveal
from agents.runtime.contracts import Event
from agents.training.assignment import Manifest, input_root


def check_claims(
    record: Record,
    part: Part,
    opened: Opened,
    manifest: Manifest | None,
    registry: StakeBook,
    invalid: frozenset[int],
) -> tuple[list[Reveal], frozenset[int]]:
    """Check commitments, reveals and duplicates; the reveals by ascending node id, the flagged.

    `manifest`: None when no node can have been assigned anything. `invalid`: nodes whose claims
    were found to be lies already; a wrong input of theirs is a remark.
    """
    number, state = part.round_id, record.current[part.round_id]
    commits = record.of("Committed", number)
    reveals = record.of("Revealed", number)
    part.same("commitments", "Committed", "their number", len(commits), state.n_committed)
    part.same("commitments", "Revealed", "their number", len(reveals), state.n_revealed)
    committed = _once(part, commits)
    revealed = _once(part, reveals)
    for event in commits:
        node = event.args["node_id"]
        part.hold(
            "commitments",
            node in opened.nodes,
            f"node {node}",
            "it committed without being in the round's snapshot.",
        )
    stored = record.flags("commitment_of", number, opened.nodes)
    marks = record.flags("is_revealed", number, opened.nodes)
    for node in opened.nodes:
        mine, opening = committed.get(node), revealed.get(node)
        wanted = ZERO_DIGEST if mine is None else mine.args["commitment"]
        if opening is not None:
            args = opening.args
            wanted = formulas.opened(args["content"], args["trace_root"])
        part.same("commitments", f"node {node}", "what the contract keeps", stored[node], wanted)
        part.same(
            "commitments", f"node {node}", "whether it revealed", marks[node], opening is not None
        )
    found = []
    for node, reveal in sorted(revealed.items()):
        if node not in committed:
            part.differ("commitments", f"node {node}", "it revealed without having committed.")
        else:
            _check_opening(record, part, committed[node], reveal, registry)
        if manifest is not None and manifest.of(node) is not None:
            wanted = input_root(manifest, node, opened.prev_model)
            said = reveal.args["input_root"]
            if node in invalid and said != wanted:
                part.remark(f"node {node}, found invalid, revealed another input_root.")
            else:
                part.same("assignments", f"node {node}", "the input_root it revealed", said, wanted)
        found.append(
            Reveal(
                node=node,
                **{
                    name: bytes(reveal.args[name])
                    for name in ("input_root", "content", "trace_root", "proof")
                },
            )
        )
    return found, _check_duplicates(record, part, reveals, opened)


def _once(part: Part, events: list[Event]) -> dict[int, Event]:
    found: dict[int, Event] = {}
    for event in events:
        node = event.args["node_id"]
        part.hold(
            "commitments", node not in found, f"node {node}", f"it has two events {event.name}."
        )
        found.setdefault(node, event)
    return found


def _check_opening(
    record: Record, part: Part, commit: Event, reveal: Event, registry: StakeBook
) -> None:
    args, who = reveal.args, f"node {reveal.args['node_id']}"
    wanted = commit.args["commitment"]
    openings = record.openings(reveal)
    if not part.hold(
        "commitments",
        bool(openings),
        who,
        f"the transaction 0x{reveal.tx_hash.hex()} of its reveal holds no opening.",
    ):
        return
    digests = []
    for opening in openings:
        digest = formulas.round_commitment(
            record.chain_id,
            record.network.rounds.address,
            (record.job_id, part.round_id, args["node_id"]),
            opening.sender or registry.operator(args["node_id"], commit),
            (opening.input_root, opening.content, opening.trace_root, opening.salt),
        )
        digests.append(digest)
        if digest == wanted:
            for name in ("input_root", "content", "trace_root", "proof"):
                sent = getattr(opening, name)
                part.same("commitments", who, f"{name} of Revealed", args[name], sent)
            if opening.sender:
                operator = registry.operator(args["node_id"], commit)
                part.same("commitments", who, "who opened its commitment", opening.sender, operator)
            break
    part.same(
        "commitments", who, "its commitment", wanted, wanted if wanted in digests else digests[0]
    )


def _check_duplicates(
    record: Record, part: Part, reveals: list[Event], opened: Opened
) -> frozenset[int]:
    """Equal contents are flagged, and nothing else is."""
    first: dict[bytes, int] = {}
    flagged: set[int] = set()
    wanted = []
    for event in sorted(reveals, key=place):
        node, content = event.args["node_id"], event.args["content"]
        if content in first:
            wanted.append((content, first[content], node))
            flagged |= {first[content], node}
        else:
            first[content] = node
    found = [
        (e.args["content"], e.args["first_node"], e.args["second_node"])
        for e in record.of("DuplicateContent", part.round_id)
    ]
    part.same("commitments", "DuplicateContent", "what it says", found, wanted)
    marks = record.flags("is_flagged", part.round_id, opened.nodes)
    for node, mark in marks.items():
        part.same("commitments", f"node {node}", "whether it is flagged", mark, node in flagged)
    return frozenset(flagged)
