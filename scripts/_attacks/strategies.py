# SPDX-License-Identifier: Apache-2.0
"""What a node of a swarm may send: its work, a part of it, or what it makes of others'."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.nn.functional import cross_entropy

from agents.training.assignment import work_order
from agents.training.norms import norm
from agents.training.state import State, model_hash
from scripts._attacks.swarm import DEVICE, Strategy, Turn, combined, unit

# What is public, as an update; None before there is any.
Direction = Callable[[Turn], State | None]


def trains(work: float = 1.0) -> Strategy:
    """Honest: trains on its batches; a share of them below 1, unassigned ones too above."""
    return lambda turn, node: turn.gradient(node, work)


def rides(work: float = 1.0, weight: float = 1.0, decay: float = 0.8, rounds: int = 8) -> Strategy:
    """Adds the decayed mean of the published updates, at `weight` of its own update's norm."""

    def send(turn: Turn, node: int) -> State:
        own, past = turn.gradient(node, work), turn.past(decay, rounds)
        if past is None:
            return own
        mixed = combined([(1.0, own), (weight * norm(own), unit(past))])
        assert mixed is not None
        return mixed

    return send


def rides_by_tensor(work: float = 1.0, weight: float = 1.0) -> Strategy:
    """Adds past updates tensor by tensor, each at the norm of its own update's tensor."""

    def send(turn: Turn, node: int) -> State:
        own, past = turn.gradient(node, work), turn.past()
        if past is None:
            return own
        return {
            name: t + weight * past[name] * (t.norm() / past[name].norm().clamp_min(1e-30))
            for name, t in own.items()
        }

    return send


def skims(part: float) -> Strategy:
    """Trains on the first `part` of every sequence, and rides for the rest."""

    def send(turn: Turn, node: int) -> State:
        own, past = turn.skimmed(node, part), turn.past()
        mixed = combined([(1.0, own), (0.5 * norm(own), unit(past))]) if past else own
        assert mixed is not None
        return mixed

    return send


def windows(part: float) -> Strategy:
    """Trains on a window of `part` of every sequence, by itself, another one in each."""
    return lambda turn, node: turn.skimmed(node, part, apart=True)


def head_only(turn: Turn, node: int) -> State:
    """Sends what the output layer learns: half of the work, nothing goes back through others."""
    state, job = turn.swarm.state, turn.swarm.job
    net = job.net(DEVICE)
    net.load(state)
    last = net.model.get_submodule("norm")
    hook = last.register_forward_hook(lambda module, given, output: output.detach())
    task = work_order(turn.plan.manifest, node, job.spec, 1, turn.swarm.number, model_hash(state))
    names, parameters = zip(*net.model.named_parameters(), strict=True)
    sent = {name: torch.zeros_like(tensor) for name, tensor in state.items()}
    for index in task.batches():
        batch = job.data.batch(index)
        output = net.model(batch[:, :-1])
        logits = output if isinstance(output, torch.Tensor) else output.logits
        loss = cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten()) / task.steps
        found = torch.autograd.grad(loss, parameters, allow_unused=True)
        for name, gradient in zip(names, found, strict=True):
            if gradient is not None:
                sent[name] += gradient.detach()
    hook.remove()
    return sent


def head_and_part(part: float) -> Strategy:
    """The output layer's update of all data; of a part of it the others', as long as of all."""

    def send(turn: Turn, node: int) -> State:
        last, few, whole = head_only(turn, node), turn.gradient(node, part), turn.gradient(node)
        return {
            name: t if t.any() else _as_long_as(whole[name], few[name]) for name, t in last.items()
        }

    return send


def head_and_past(turn: Turn, node: int) -> State:
    """The output layer's update; the others are past updates, as long as honest ones."""
    last, past, whole = head_only(turn, node), turn.past(), turn.gradient(node)
    if past is None:
        return last
    return {
        name: t if t.any() else _as_long_as(whole[name], past[name]) for name, t in last.items()
    }


def upper_half(lower: float = 0.0) -> Strategy:
    """All but the lower half of the layers; those of a part of the data, as long as of all."""

    def send(turn: Turn, node: int) -> State:
        whole = turn.gradient(node)
        few = turn.gradient(node, lower) if lower else zero(turn, node)
        depth = turn.swarm.job.spec.model.n_layers // 2
        low = tuple(f"blocks.{layer}." for layer in range(depth))
        return {
            name: _as_long_as(t, few[name]) if name.startswith(low) else t
            for name, t in whole.items()
        }

    return send


def _as_long_as(honest: torch.Tensor, tensor: torch.Tensor) -> torch.Tensor:
    """`tensor` at the L2 norm of `honest`; zeros stay."""
    return tensor * (norm({"": honest}) / (norm({"": tensor}) or 1.0))


def masked_history(work: float = 0.25) -> Strategy:
    """Past updates where its own update agrees in sign, its own elsewhere."""

    def send(turn: Turn, node: int) -> State:
        own, past = turn.gradient(node, work), turn.past()
        if past is None:
            return own
        scale = norm(own) / (norm(past) or 1.0)
        return {
            name: torch.where(t * past[name] > 0, t + scale * past[name], 0.5 * t)
            for name, t in own.items()
        }

    return send


def adapts(*ways: Strategy, tried: int = 2) -> Strategy:
    """Sends each of several ways for a few rounds in turn, then what earned it most while it sent
    that. Each node keeps books of its own; all pay is public."""
    books: dict[int, list[float]] = {}

    def send(turn: Turn, node: int) -> State:
        book, so_far = books.setdefault(node, []), turn.swarm.pay[node]
        book.append(so_far)  # before round 0, 1, ...
        trials = len(ways) * tried
        if turn.swarm.number < trials:
            return ways[turn.swarm.number // tried](turn, node)
        earned = [book[(way + 1) * tried] - book[way * tried] for way in range(len(ways))]
        return ways[earned.index(max(earned))](turn, node)

    return send


def old_history(skip: int) -> Strategy:
    """No work: the decayed mean of the published updates older than `skip` rounds."""

    def send(turn: Turn, node: int) -> State:
        past = turn.past(0.95, 64, skip)
        return noise(turn, node) if past is None else past

    return send


def history(turn: Turn, node: int) -> State:
    """No work: the decayed mean of the published updates; noise while there is none."""
    past = turn.past()
    return noise(turn, node) if past is None else past


def noise(turn: Turn, node: int) -> State:
    """No work: random numbers, another draw for each node and round."""
    draw = torch.Generator().manual_seed(1000 * turn.swarm.number + node)
    return {
        name: torch.randn(shape, generator=draw) * 1e-3
        for name, shape in sorted(turn.swarm.job.shapes.items())
    }


def zero(turn: Turn, node: int) -> State:
    """No work: nothing."""
    return {name: torch.zeros(shape) for name, shape in turn.swarm.job.shapes.items()}


def sends_again(turn: Turn, node: int) -> State:
    """No work: what the node sent in the round before; noise in the first."""
    sent = turn.swarm.payloads[:1]
    return sent[0][node] if sent else noise(turn, node)


def stops(after: int) -> Strategy:
    """Honest in so many rounds; then sends its last payload again and again."""
    return lambda turn, node: (
        turn.gradient(node) if turn.swarm.number < after else sends_again(turn, node)
    )


def copies(victim: int) -> Strategy:
    """No work of its own: sends what the victim trains."""
    return lambda turn, node: turn.gradient(victim)


def blurs(victim: int, weight: float = 1.0) -> Strategy:
    """No work of its own: sends what the victim trains, with as much noise as `weight` says."""

    def send(turn: Turn, node: int) -> State:
        own = turn.gradient(victim)
        mixed = combined([(1.0, own), (weight * norm(own), unit(noise(turn, node)))])
        assert mixed is not None
        return mixed

    return send


def pools(*members: int, work: float = 1.0) -> Strategy:
    """Identities of one owner: each sends the mean of what all of them train."""

    def send(turn: Turn, node: int) -> State:
        mean = combined([(1 / len(members), turn.gradient(n, work)) for n in members])
        assert mean is not None
        return mean

    return send


def pools_in_part(own: float, *members: int) -> Strategy:
    """As `pools`, with more weight (`own` of 1) on what a member trains itself."""

    def send(turn: Turn, node: int) -> State:
        rest = (1 - own) / (len(members) - 1)
        mean = combined([(own if n == node else rest, turn.gradient(n)) for n in members])
        assert mean is not None
        return mean

    return send


def pools_in_a_ring(*members: int) -> Strategy:
    """Each sends the mean of its own and the next member's update."""

    def send(turn: Turn, node: int) -> State:
        follower = members[(members.index(node) + 1) % len(members)]
        mean = combined([(0.5, turn.gradient(node)), (0.5, turn.gradient(follower))])
        assert mean is not None
        return mean

    return send


def part_pool(*members: int) -> Strategy:
    return pools_in_part(0.6, *members)


def resends(direction: Direction, blur: float = 0.2) -> Strategy:
    """No work of its own: a public direction at the norm of the last payloads, a little blurred so
    that no two are alike. Before there is a past, noise."""

    def send(turn: Turn, node: int) -> State:
        swarm, past = turn.swarm, direction(turn)
        if past is None or not swarm.payloads:
            return noise(turn, node)
        norms = sorted(norm(update) for update in swarm.payloads[0].values())
        length = norms[len(norms) // 2]
        mixed = combined([(length, unit(past)), (blur * length, unit(noise(turn, node)))])
        assert mixed is not None
        return mixed

    return send


def old_merges(turn: Turn) -> State | None:
    """The decayed mean of merged updates."""
    return turn.past()


def cubed_merges(turn: Turn) -> State | None:
    """Its cube, number by number, which no mean of merges is."""
    past = turn.past()
    return None if past is None else {name: tensor**3 for name, tensor in past.items()}


def last_payloads(turn: Turn) -> State | None:
    """The mean of what everybody sent in the round before."""
    sent = turn.swarm.payloads[:1]
    return combined([(1.0, update) for update in sent[0].values()]) if sent else None
