# SPDX-License-Identifier: Apache-2.0
"""What cheating at a redundant task brings on average, and the penalty from which it does not pay.

Of the nodes that run tasks a share x obeys one attacker. Its nodes always return the same fake, all
others the true result. Three nodes are drawn; two equal results win. With p0 to p3 the chances that
none to three of the drawn are the attacker's, it wins with p2 + p3. Four bounds on what a node must
lose, each a function of these chances alone:

- The article ("A Practical Verification Mechanism for Decentralized GPU Sharing", Crynux):
  E = p k - (1 - p) s with p = p2 + p3, so s = p k / (1 - p). It charges the stake s even when none
  of the drawn nodes is the attacker's, so its stake is too small.
- Corrected, for three nodes at once: only the odd one of three loses, so E = (p2 + p3) k - p1 s.
- Two, then one (the contract RedundantTasks): two nodes run first and a third only if they differ.
  Sequential draws are as likely in every order. The attacker wins if two of the first three are
  its own, drawn or not yet: p2 + p3. It loses if exactly one is and that one was among the first
  two: (2/3) p1. In the other third of p1 the first two are honest, agree, and the third is never
  drawn. So E = (p2 + p3) f - (2/3) p1 s, whose bound is 3/2 times the corrected one. The winners
  share one fee f, whatever their number.
- Abort: fake where both of the first two are its own, leave the task where one is. E = (p3 + p2/3)
  f - (2/3) (p1 + p2) a. What later draws of the same task cost it is left out, so this is the most
  that it can make. Once a >= s leaving is never better than going on with the fake.

A bound is the penalty at which E = 0: beyond it the attack loses money outright. Honest work by the
same nodes would earn money, so a smaller penalty suffices where the attacker could do it. All
numbers are exact fractions. Amounts may be in any one unit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from math import comb

Amount = int | Fraction
_THIRD = Fraction(1, 3)


@dataclass(frozen=True)
class Draw:
    """Chances that of the first three nodes drawn none, one, two, three are the attacker's."""

    none: Fraction
    one: Fraction
    two: Fraction
    three: Fraction

    @property
    def wins(self) -> Fraction:
        """The fake has the majority: the article's p."""
        return self.two + self.three

    @property
    def loses(self) -> Fraction:
        """Two, then one: the fake is compared, and loses to two honest results."""
        return 2 * _THIRD * self.one

    @property
    def pair(self) -> Fraction:
        """Two, then one: both of the first two are the attacker's."""
        return self.three + _THIRD * self.two

    @property
    def split(self) -> Fraction:
        """Two, then one: exactly one of the first two is."""
        return 2 * _THIRD * (self.one + self.two)

    @property
    def framed(self) -> Fraction:
        """Two, then one: an honest node among the first two loses to two fakes."""
        return 2 * _THIRD * self.two


def drawn(dishonest: int, honest: int) -> Draw:
    """Three nodes of a pool, without replacement. ValueError for fewer than three nodes."""
    if dishonest < 0 or honest < 0 or dishonest + honest < 3:
        raise ValueError(f"Three of {dishonest} dishonest and {honest} honest can't be drawn.")
    total = comb(dishonest + honest, 3)
    chances = (Fraction(comb(dishonest, i) * comb(honest, 3 - i), total) for i in range(4))
    return Draw(*chances)


def limit(share: Fraction) -> Draw:
    """Three nodes of an endless pool, of which `share`, 0 to 1, is the attacker's."""
    if not 0 <= share <= 1:
        raise ValueError(f"A share of nodes is from 0 to 1, not {share}.")
    rest = 1 - share
    return Draw(rest**3, 3 * share * rest**2, 3 * share**2 * rest, share**3)


# -- three at once -----------------------------------------------------------------------------


def article_expectation(draw: Draw, price: Amount, stake: Amount) -> Fraction:
    """What the article expects a cheat to make per task: E = p k - (1 - p) s."""
    return draw.wins * price - (1 - draw.wins) * stake


def article_stake(draw: Draw, price: Amount) -> Fraction | None:
    """The article's s = p k / (1 - p); None, its '-', where p = 1."""
    return _ratio(draw.wins * price, 1 - draw.wins)


def corrected_penalty(draw: Draw, gain: Amount) -> Fraction | None:
    """s = k (p2 + p3) / p1 where a success brings `gain` in all.

    The penalty for leaving a task must be as large, else whoever is alone in it leaves. None where
    no penalty is enough: the attacker wins now and then, and never loses.
    """
    return _ratio(draw.wins * gain, draw.one)


def corrected_penalty_each(draw: Draw, price: Amount) -> Fraction | None:
    """The same where each winner is paid `price`: s = k (2 p2 + 3 p3) / p1."""
    return _ratio((2 * draw.two + 3 * draw.three) * price, draw.one)


def honest_at_once(draw: Draw, price: Amount, penalty: Amount) -> Fraction:
    """What an honest node expects per task it is drawn for, if fakes are only ever outvoted.

    It is paid `price` unless both others are the attacker's, which costs it `penalty`; in an
    endless pool that is a chance of x^2. ValueError where no honest node can be drawn.
    """
    lanes = 3 * draw.none + 2 * draw.one + draw.two
    if not lanes:
        raise ValueError("There is no honest node that could be drawn.")
    return ((lanes - draw.two) * price - draw.two * penalty) / lanes


# -- two, then one -----------------------------------------------------------------------------


def expectation(draw: Draw, fee: Amount, penalty: Amount) -> Fraction:
    """What always faking brings per task: E = (p2 + p3) f - (2/3) p1 s."""
    return draw.wins * fee - draw.loses * penalty


def penalty_needed(draw: Draw, fee: Amount) -> Fraction | None:
    """s = 3 f (p2 + p3) / (2 p1); None where the attacker wins now and then and never loses."""
    return _ratio(draw.wins * fee, draw.loses)


def abort_expectation(draw: Draw, fee: Amount, penalty: Amount) -> Fraction:
    """The most that faking in own pairs and leaving all other tasks brings per task."""
    return draw.pair * fee - draw.split * penalty


def abort_penalty_needed(draw: Draw, fee: Amount) -> Fraction | None:
    """a = 3 f (p3 + p2/3) / (2 (p1 + p2)): x / (2 (1 - x)) fees in an endless pool."""
    return _ratio(draw.pair * fee, draw.split)


def honest_expectation(draw: Draw, fee: Amount, penalty: Amount, compute: Amount = 0) -> Fraction:
    """What an honest node expects per task it is drawn for, if nobody ever appeals.

    Half the fee if two honest results meet; the penalty if it is outvoted; `compute` in any case.
    ValueError where no honest node can be drawn.
    """
    paid = 2 * (draw.none + draw.one)
    lanes = paid + draw.framed
    if not lanes:
        raise ValueError("There is no honest node that could be drawn.")
    return (paid * Fraction(fee) / 2 - draw.framed * penalty) / lanes - compute


# -- a cheat that fakes only where nobody can contradict it ------------------------------------


def pair_gain(fee: Amount, collusion: Amount, rate: Fraction) -> Fraction:
    """What a faked pair brings outright: the fee, and both penalties where it is found out.

    `rate`: the share of agreed tasks that verifiers run again. `collusion`: what each of the two
    nodes loses then. The fee was paid when the results agreed, and it is not taken back: the
    creator's refund comes out of the penalties.
    """
    return fee - rate * 2 * collusion


def pair_advantage(compute: Amount, collusion: Amount, rate: Fraction) -> Fraction:
    """What a faked pair brings more than honest work: two computations saved, less the penalties.

    The fee is the same either way, so no comparison of results alone makes this negative.
    """
    return 2 * compute - rate * 2 * collusion


def rate_needed(compute: Amount, collusion: Amount) -> Fraction | None:
    """The audit rate at which faking own pairs is worth no more than honest work; None beyond 1.

    An honest node computes for at most half the fee, so `compute` = fee / 2 is the worst case, and
    then the rate also takes the whole fee of a faked pair.
    """
    rate = _ratio(Fraction(compute), Fraction(collusion))
    return None if rate is None or rate > 1 else rate


# -- shares ------------------------------------------------------------------------------------


def greatest_share(holds: Callable[[Draw], bool]) -> float:
    """The share up to which `holds` is true of an endless pool, if it is true below and not above.

    Found by halving, to 2^-40; 0 and 1 where it never or always holds.
    """
    low, high = Fraction(0), Fraction(1)
    for _ in range(40):
        middle = (low + high) / 2
        if holds(limit(middle)):
            low = middle
        else:
            high = middle
    return float(low) if low else 0.0


def article_threshold() -> float:
    """The share from which an honest node loses at the article's stake: 0.597."""
    return greatest_share(
        lambda draw: honest_at_once(draw, 1, article_stake(draw, 1) or Fraction(0)) > 0
    )


def corrected_threshold() -> float:
    """The share from which an honest node loses at the corrected penalty: 0.578."""
    return greatest_share(
        lambda draw: honest_at_once(draw, 1, corrected_penalty(draw, 1) or Fraction(0)) > 0
    )


def threshold() -> float:
    """The share from which an honest node loses at the bound of two, then one: a half.

    At the bound the attacker's E is zero, and the honest side's is the same with x and 1 - x
    exchanged: (p0 + p1) f - (2/3) p2 s. Both sides can't hold the majority.
    """
    return greatest_share(
        lambda draw: honest_expectation(draw, 1, penalty_needed(draw, 1) or Fraction(0)) > 0
    )


def _ratio(over: Amount, under: Amount) -> Fraction | None:
    """over / under; 0 for nothing over, None for something over nothing."""
    if not over:
        return Fraction(0)
    return Fraction(over) / Fraction(under) if under else None
