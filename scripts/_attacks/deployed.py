# SPDX-License-Identifier: Apache-2.0
"""The numbers of a network that runs: what its contracts, its nodes and one of its jobs say."""

from __future__ import annotations

from dataclasses import asdict, replace

from agents.jobs.publish import Terms
from agents.protocol.network import Network
from agents.protocol.numbers import MAX_NODES, Role, Violation
from agents.protocol.structs import Terms as JobTerms
from agents.tasks.contract import Tasks
from scripts._attacks.market import Numbers
from scripts._net.deployment import DeploymentSettings, TaskTerms
from scripts._shared.refused_terms import together_s

_FEW = 3  # nodes of a role from which on the network's own number is taken
_VOICES = 31  # of verifiers: 32 owners have one (NodeRegistry), and some attacks bring one more
_MANY = 32  # trainers that play; more would make each round slower


def deployed(network: Network) -> Numbers:
    """What a network's contracts and nodes are like; the job is one with the usual terms.

    Where fewer than three nodes have a role, the number that `Numbers` has counts, and the least
    stake that the role asks for.
    """
    chain, registry = network.chain, network.registry
    settings = _settings(network)
    block = chain.head().number
    usual = Numbers()

    def role(kind: Role, least: int, default: int) -> tuple[int, int]:
        nodes = chain.call(registry, "role_nodes", int(kind), 0, MAX_NODES)
        if len(nodes) < _FEW:
            return default, least
        return len(nodes), min(network.stakes_at(nodes, block).values())

    nodes, stake = role(Role.TRAINER, settings.trainer_stake, usual.nodes)
    verifiers, weight = role(Role.VERIFIER, settings.verifier_stake, usual.verifiers)
    aggregators, bonded = role(Role.AGGREGATOR, settings.aggregator_stake, usual.aggregators)
    return Numbers(
        nodes=min(nodes, _MANY),
        trainers=nodes,
        stake=max(stake, settings.trainer_stake),
        verifiers=min(verifiers, _VOICES),
        verifier_stake=max(weight, settings.verifier_stake),
        aggregators=aggregators,
        aggregator_stake=max(bonded, settings.aggregator_stake),
        terms=usual_terms(settings),
        settings=settings,
        table={Violation(number): row for number, row in network.penalties().items()},
    )


def usual_terms(settings: DeploymentSettings) -> Terms:
    """A job's usual terms, as near as a deployment permits: brief windows where stakes unbond too
    soon for others, and its bounds of reward, bond and retained pay."""
    usual = Terms()
    windows = Terms.brief() if together_s(usual) > settings.unbonding_period else usual
    bond = max(settings.least_challenge_bond, usual.challenge_bond)
    return replace(
        windows,
        reward_per_round=max(usual.reward_per_round, settings.least_reward),
        challenge_bond=min(bond, settings.most_challenge_bond),
        retain_rounds=settings.least_retained,
    )


def with_terms(numbers: Numbers, terms: JobTerms) -> Numbers:
    """The same with the terms that a job has."""
    names = asdict(Terms())
    chosen = {name: value for name, value in asdict(terms).items() if name in names}
    return replace(numbers, terms=Terms(**chosen))


def _settings(network: Network) -> DeploymentSettings:
    chain, bounds = network.chain, network.bounds()
    parameters = chain.call(network.registry, "parameters")
    coordinator = network.deployment["Coordinator"]
    reports = network.deployment["ViolationReports"]
    routine, governance = chain.call(coordinator, "delays")
    tasks = asdict(Tasks(network).terms())
    known = {name: tasks[name] for name in asdict(TaskTerms()) if name in tasks}
    return DeploymentSettings(
        members=tuple(chain.call(coordinator, "members")),
        holder="",
        threshold=int(chain.call(coordinator, "threshold")),
        routine_delay=int(routine),
        governance_delay=int(governance),
        grace_period=int(chain.call(coordinator, "grace_period")),
        unbonding_period=int(parameters.unbonding_period),
        trainer_stake=int(parameters.trainer_stake),
        verifier_stake=int(parameters.verifier_stake),
        aggregator_stake=int(parameters.aggregator_stake),
        benchmark_window=int(parameters.benchmark_window),
        benchmark_quorum=int(parameters.benchmark_quorum),
        appeal_bond=int(chain.call(reports, "appeal_bond")),
        least_challenge_bond=bounds.least_bond,
        most_challenge_bond=bounds.most_bond,
        least_reward=bounds.least_reward,
        least_retained=bounds.least_retained,
        tasks=TaskTerms(**known),
    )
