# SPDX-License-Identifier: AGPL-3.0-only
# pragma version ~=0.4.3
# pragma nonreentrancy off
"""
@title Announcements
@custom:contract-name announcements
@license AGPL-3.0-only
@notice Who found something first. Whoever sees a report wait for its block can send the same before
        it. So a finder announces first: it stores a digest that shows nothing, and opens it in a
        later block, with its report. The finder of a subject is who opens the oldest announcement
        of it, if that is of an earlier block than the first report. The digest names the finder, so
        a copy of it opens for nobody else.

        Example: Ada announces in block 7 and reports in block 9. Bob sees her report wait. He can
        still report in block 8, but an announcement that he makes in block 8 is younger than hers.
@dev An announcement stops and delays nothing. A subject and a scope are keys that the importer
     chooses. The evidence is the only thing in a digest that others can't guess: it must be hard to
     guess.
"""

from interfaces import IAnnouncements

implements: IAnnouncements

DOMAIN: constant(bytes32) = keccak256("menagerie.announcements.v1")

_TIME: constant(uint256) = 64
_DEPOSIT: constant(uint256) = 128
_HALF: constant(uint256) = 2**64 - 1
_BLOCK: constant(uint256) = 160
_FINDER_MASK: constant(uint256) = 2**160 - 1

# By scope and digest: block, time and deposit of an announcement that is not opened, from the
# lowest bit 64, 64 and 128 wide.
_announced: HashMap[bytes32, HashMap[bytes32, uint256]]
# By subject: the finder, and above it the block of its announcement, or of the first report.
_finders: HashMap[bytes32, uint256]


@deploy
def __init__():
    """
    @notice Nothing is announced at the start.
    """
    pass


@view
@external
def announced_in(scope: bytes32, digest: bytes32) -> uint256:
    """
    @notice When something was announced that is not opened yet.
    @param scope Whose it is, as in the event.
    @param digest What was announced.
    @return uint256 The block; 0 when there is no such announcement, or it was opened or expired.
    """
    return self._announced[scope][digest] & _HALF


@internal
def _announce(scope: bytes32, digest: bytes32, deposit: uint256):
    """
    @notice Stores an announcement and what was paid for it.
    @dev Reverts: "announcements: already announced".
    @param scope Whose it is. No two people may have one scope, or one could block the other.
    @param digest See `_digest`.
    @param deposit Below 2**128.
    """
    assert self._announced[scope][digest] == 0, "announcements: already announced"
    self._announced[scope][digest] = (deposit << _DEPOSIT | block.timestamp << _TIME | block.number)
    log IAnnouncements.Announced(scope=scope, digest=digest)


@internal
def _open(scope: bytes32, digest: bytes32, subject: bytes32, finder: uint256) -> (bool, uint256):
    """
    @notice Opens an announcement of an earlier block, if there is one, and makes its owner the
            finder of the subject, if nobody has opened an older one.
    @param scope Whose it is.
    @param digest What it was made as.
    @param subject What was found.
    @param finder Who has found it, below 2**160 and not 0.
    @return bool Whether there was one.
    @return uint256 What was paid for it.
    """
    word: uint256 = self._announced[scope][digest]
    announced_in: uint256 = word & _HALF
    if word == 0 or announced_in == block.number:
        return False, 0
    self._announced[scope][digest] = 0
    oldest: uint256 = self._finders[subject]
    if oldest == 0 or announced_in < oldest >> _BLOCK:
        self._finders[subject] = announced_in << _BLOCK | finder
    log IAnnouncements.AnnouncementOpened(
        subject=subject, scope=scope, finder=finder, announced_in=announced_in
    )
    return True, word >> _DEPOSIT


@internal
def _publish(subject: bytes32):
    """
    @notice Somebody says in public what was found: announcements from now on are too late.
    @param subject What was found.
    """
    if self._finders[subject] == 0:
        self._finders[subject] = block.number << _BLOCK


@internal
def _expire(scope: bytes32, digest: bytes32, after: uint256) -> uint256:
    """
    @notice Ends an announcement that nobody has opened in time.
    @dev Reverts: "announcements: not announced", "announcements: too early".
    @param scope Whose it is.
    @param digest What it was made as.
    @param after The seconds in which it may be opened.
    @return uint256 What was paid for it.
    """
    word: uint256 = self._announced[scope][digest]
    assert word != 0, "announcements: not announced"
    assert block.timestamp > (word >> _TIME & _HALF) + after, "announcements: too early"
    self._announced[scope][digest] = 0
    return word >> _DEPOSIT


@internal
@view
def _finder(subject: bytes32) -> uint256:
    """
    @notice Who has found something.
    @param subject What was found.
    @return uint256 The finder; 0 when nobody had announced it before the first report.
    """
    return self._finders[subject] & _FINDER_MASK


@internal
@view
def _digest(
    job_id: uint256, round_id: uint256, what: uint256, finder: uint256, evidence: bytes32
) -> bytes32:
    """
    @notice What is announced: keccak256(abi_encode(DOMAIN, chain id, this contract, job_id,
            round_id, what, finder, evidence)).
    @param job_id The job.
    @param round_id The round.
    @param what A node's id or a result's hash.
    @param finder Who has found it: a verifier's id or an address.
    @param evidence Digest of the evidence, with something random in it.
    @return bytes32 The digest.
    """
    return keccak256(abi_encode(DOMAIN, chain.id, self, job_id, round_id, what, finder, evidence))
