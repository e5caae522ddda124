# SPDX-License-Identifier: Apache-2.0
"""A sponsor's commands: create a job from text files, fund it, cancel it, look at it.

ape run job create --network ... --account sponsor --data a.txt --data b.jsonl --rounds 100
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import click

from agents.protocol.numbers import MAX_NODES
from agents.runtime.errors import Reverted, TxRefused
from scripts._shared.connecting import (
    ConnectedProviderCommand,
    account_option,
    network_option,
    reverting,
)
from scripts._shared.job_steps import (
    Step,
    adopting,
    funding,
    pays_scores,
    refuse_unadopted,
    take,
)
from scripts._shared.operator import (
    ZOO_AMOUNT,
    Contracts,
    afford,
    allow,
    deployment_option,
    explained,
    read_network_option,
    reading,
    rehearse,
    store_of,
    store_to_read,
    zoo,
)
from scripts._shared.signing import signing, yes_option
from scripts._shared.spec_file import spec_fields

FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
WINDOWS = ("commit", "reveal", "aggregate", "challenge", "appeal", "dispute")
SCORE_WINDOWS = ("score-commit", "score-reveal")


store_option = click.option(
    "--store", help="A folder, or the URL of a Kubo node (default: localnet's folder)."
)


def window_option(name: str, words: str, otherwise: str | None = None) -> Any:
    """Return the option for one of the windows. Its default depends on the chain.

    `otherwise`: the default in words, if it is another.
    """
    usual = {
        "commit": "600",
        "reveal": "300",
        "aggregate": "300",
        "challenge": "1800",
        "appeal": "86400",
        "dispute": "259200",
        "score-commit": "600",
        "score-reveal": "300",
    }[name]
    told = f"{words}, in seconds (default: {otherwise or usual})."
    return click.option(f"--{name}-s", type=click.IntRange(1), help=told)


@click.group()
def cli() -> None:
    """A sponsor's commands."""


_PACKING = (
    click.option(
        "--data",
        "files",
        type=FILE,
        multiple=True,
        help=".txt, .jsonl or .parquet file; repeatable (default: Python's standard library).",
    ),
    click.option("--field", default="text", show_default=True, help="Key or column with the text."),
    click.option("--spec", type=FILE, help="Fields of the job spec, YAML or JSON."),
    click.option(
        "--model",
        type=click.Path(exists=True, file_okay=False, path_type=Path),
        help="Folder of a Hugging Face model: the job starts from its config, tokenizer and "
        "weights (extra: hf).",
    ),
    click.option("--model-config", type=FILE, help="A Hugging Face config.json (extra: hf)."),
    click.option("--tokenizer", type=FILE, help="A Hugging Face tokenizer.json (extra: hf)."),
    click.option(
        "--separator", type=click.IntRange(0), help="Token between documents, with --tokenizer."
    ),
    click.option("--rounds", type=click.IntRange(1), help="Rounds until the job is complete."),
    click.option(
        "--reward", type=ZOO_AMOUNT, default="1000", show_default=True, help="ZOO per round."
    ),
    click.option("--max-nodes", type=click.IntRange(1, MAX_NODES), default=64, show_default=True),
    window_option("commit", "Commit window"),
    window_option("reveal", "Reveal window"),
    window_option("aggregate", "Duty window"),
    window_option("challenge", "Challenge window"),
    window_option("appeal", "Appeal window"),
    window_option("dispute", "Committee's time"),
    window_option("score-commit", "Verifiers' time to commit scores (score gauntlet)"),
    window_option("score-reveal", "Verifiers' time to reveal them"),
    click.option(
        "--bond", type=ZOO_AMOUNT, default="100", show_default=True, help="A challenge's."
    ),
    click.option(
        "--retain-rounds",
        type=click.IntRange(0, 32),
        help="Rounds' pay of a trainer that answers for its work until the end "
        "(default: a quarter of the rounds, at most 8, or what the network asks for).",
    ),
    click.option(
        "--verifiers-cut",
        type=click.FloatRange(0, 50),
        help="The verifiers' part of the pay, in percent (default: 10, or what it takes to pay "
        "them for doing work again while training costs half of its pay).",
    ),
    click.option(
        "--few-verifiers",
        is_flag=True,
        help="Go on although too few verifiers have declared a determinism class of the spec.",
    ),
    store_option,
    click.option("--data-key", type=FILE, help="Encrypt the data with this file of `keys new`."),
    click.option(
        "--one-key", is_flag=True, help="Seal all shards with that key, and none with its own."
    ),
    click.option(
        "--shard-bytes",
        type=click.IntRange(4),
        help="Plain bytes of a shard, a multiple of 4. A node downloads shards whole; where each "
        "has a key of its own, it comes to hold the keys of those that its batches lie in, so "
        "smaller ones show it less. Default: 1 MiB, or with --data-key 64 KiB, less where a small "
        "corpus would give fewer than eight shards for each node (a batch at least), more where a "
        "large one would give over 1,024.",
    ),
    click.option("--passphrase-env", help="Variable with that file's passphrase (default: ask)."),
    click.option(
        "--though-attacks-pay", is_flag=True, help="Create it even if an attack on it pays."
    ),
)


def packing_options(command: Any) -> Any:
    """Add what a job is made of: its data, spec, terms and store."""
    for option in reversed(_PACKING):
        command = option(command)
    return command


@cli.command(cls=ConnectedProviderCommand)
@network_option()
@account_option()
@packing_options
@click.option(
    "--fund-rounds", type=click.IntRange(0), help="Rounds to pay into escrow now (default: all)."
)
@yes_option
@deployment_option
@explained
def create(
    account: Any, deployment: Path | None, store: str | None, yes: bool, **given: Any
) -> None:
    """Pack the data, publish spec and genesis model, create the job and fund it.

    Terms and money are checked before anything is published or signed, and the known attacks are
    played on the job in this process, which takes a checkout and some seconds, or a minute or two
    where validators score. Where stakes unbond within hours, as on a local network, the default
    windows are a minute or two.
    """
    contracts = Contracts(deployment)
    store = store_of(store, contracts.chain_id)
    fields = spec_fields(given["spec"], given["rounds"])
    rounds = _rounds(fields)
    terms = _paid(contracts, _terms(contracts, account, rounds, given), fields, given)
    amount = _funded(rounds, given["fund_rounds"]) * terms.reward_per_round
    afford(contracts, account, amount)
    published, key = _published(contracts, terms, fields, store, given)
    encoded = terms.encode(published)
    rehearse(contracts.TrainingJobs.create_job, encoded, sender=account)
    lines = [
        f"let the reward pool take {zoo(amount)}",
        f"create a job of {rounds} rounds, {zoo(terms.reward_per_round)} each",
        *(["have its verifiers' scores pay for the work"] * published.by_consensus),
        f"pay {zoo(amount)} into its escrow; what no round has taken comes back at the job's end",
        *(["announce the key of its data"] * (key is not None)),
    ]
    with signing(account, lines, yes):
        allow(contracts, account, contracts.RewardPool, amount)
        job_id = _created(contracts, account, encoded)
        click.echo(f"Job {job_id} is created.")
        take(job_id, _steps(contracts, account, job_id, terms, published, amount, key, given))
    click.echo(f"Job {job_id}: {published.spec.rounds} rounds, {zoo(amount)} in escrow.")
    click.echo(f"Follow it with `ape run job show {job_id}`.")
    if key is not None:
        click.echo(f"Its data is encrypted. Give its keys with `ape run keys serve {job_id}`.")


def _created(contracts: Contracts, account: Any, encoded: tuple[Any, ...]) -> int:
    """Send `create_job`; the new job's number, from the mined event: a count may be that of
    somebody else's job by now."""
    jobs = contracts.TrainingJobs
    try:
        with reverting():
            receipt = jobs.create_job(encoded, sender=account)
        return int(receipt.decode_logs([jobs.JobCreated])[0].job_id)
    except (Reverted, TxRefused):
        raise
    except BaseException:
        click.echo(
            "Whether the job was created is not known. Before you create it again, which may pay "
            "for a second one, look for it with `ape run status`.",
            err=True,
        )
        raise


def _steps(
    contracts: Contracts,
    account: Any,
    job_id: int,
    terms: Any,
    published: Any,
    amount: int,
    key: bytes | None,
    given: dict[str, Any],
) -> list[Step]:
    """What a job takes once it is created, in order: scores are adopted before there is money to
    open a round."""
    from agents.storage.cid import digest_of
    from agents.storage.sealed import key_id_of

    steps = []
    if published.by_consensus:
        adopt_scores, windows = contracts.ScoreConsensus.adopt, terms.score_windows
        command = adopting(job_id, windows)
        steps.append(Step(command, lambda: adopt_scores(job_id, *windows, sender=account)))
    if amount:
        paid = (job_id, account.address, digest_of(published.spec_cid), amount)
        pay = contracts.RewardPool.fund
        steps.append(Step(funding(job_id, amount), lambda: pay(*paid, sender=account)))
    if key is not None:
        announce, key_id = contracts.DataKeys.set_key, key_id_of(key)
        command = f"ape run keys announce {job_id} --key {given['data_key']}"
        steps.append(Step(command, lambda: announce(job_id, key_id, sender=account)))
    return steps


@cli.command("pack", cls=ConnectedProviderCommand)
@network_option()
@packing_options
@deployment_option
@explained
def pack(deployment: Path | None, store: str | None, **given: Any) -> None:
    """Pack the data and publish spec and genesis model; print what the web page creates a job of.

    Nothing is signed and nothing is paid: what is printed is pasted into the page, whose reader
    signs with a wallet. The terms are checked as `job create` checks them.
    """
    import json

    from agents.storage.sealed import key_id_of

    contracts = Contracts(deployment)
    store = store_of(store, contracts.chain_id)
    fields = spec_fields(given["spec"], given["rounds"])
    terms = _paid(contracts, _terms(contracts, None, _rounds(fields), given), fields, given)
    published, key = _published(contracts, terms, fields, store, given)
    create_job = next(
        item for item in contracts.abi("TrainingJobs") if item.get("name") == "create_job"
    )
    names = [part["name"] for part in create_job["inputs"][0]["components"]]
    values = zip(names, terms.encode(published), strict=True)
    packed = {
        "chain_id": contracts.chain_id,
        "spec_cid": published.spec_cid,
        "terms": {name: _text(value) for name, value in values},
        "scores": list(map(str, terms.score_windows)) if published.by_consensus else None,
        "key_id": None if key is None else _text(key_id_of(key)),
    }
    click.echo(json.dumps(packed, indent=1))


def _text(value: bytes | int) -> str:
    """A value for JSON: bytes in hexadecimal, numbers in full."""
    return f"0x{value.hex()}" if isinstance(value, bytes) else str(value)


def _published(
    contracts: Contracts, terms: Any, fields: dict[str, Any], store: str, given: dict[str, Any]
) -> tuple[Any, bytes | None]:
    """Play the attacks, pack and publish; the artefacts and the data's key, None without one.

    What a sponsor should know is said on the error stream.
    """
    from agents.jobs.job import JobContext
    from agents.jobs.judgeable import unjudgeable
    from agents.jobs.publish import USUAL_NODES, publish_job
    from agents.runtime.wallet import read_keystore, read_passphrase
    from agents.storage.content_store import open_store
    from agents.training.documents import DataError, read_documents, stdlib_corpus
    from agents.training.spec import SpecError
    from scripts._shared.job_classes import check_classes
    from scripts._shared.job_queue import expected, offers

    network = contracts.network()
    trainers = int(network.chain.call(network.registry, "role_count", 1))
    if queued := expected(offers(network), terms, trainers):
        click.echo(f"Note: {queued}", err=True)

    seated = min(max(trainers, 2), terms.max_nodes)
    _attacked(network, terms, fields, given["though_attacks_pay"])

    key, key_file = None, given["data_key"]
    if key_file is not None:
        passphrase = read_passphrase(given["passphrase_env"], str(key_file))
        key = read_keystore(str(key_file), passphrase)
    elif given["one_key"]:
        raise click.UsageError("--one-key says how --data-key is used; name that too.")
    files = given["files"]
    documents = read_documents(files, given["field"]) if files else stdlib_corpus()
    read: dict[str, Any] = {
        key: given[key].read_bytes() for key in ("model_config", "tokenizer") if given[key]
    }
    fields, read = _begun(given["model"], fields, read)
    if given["separator"] is not None:
        read["separator"] = given["separator"]
    try:
        published = publish_job(
            open_store(store),
            documents,
            fields,
            data_key=key,
            one_key=given["one_key"],
            shard_bytes=given["shard_bytes"],
            nodes=max(seated, USUAL_NODES),
            **read,
        )
    except (SpecError, DataError) as error:
        raise click.ClickException(str(error)) from None
    click.echo(
        f"Published a model of {published.parameters:,} parameters and {published.tokens:,} "
        f"tokens of data; spec {published.spec_cid}",
        err=True,
    )
    pipeline = published.spec.pipeline
    stages = 1 if pipeline is None else len(pipeline.layers)
    check_classes(network, published.spec.classes, given["few_verifiers"])
    few = _few_evaluated(published.spec, seated)
    job = JobContext(published.spec, open_store(store), lambda: key)
    if too_long := unjudgeable(job, terms):
        raise click.ClickException(f"The job is refused: {too_long}.")
    _refuse_riders(job, given["though_attacks_pay"])
    _refuse_any_size(job, given["though_attacks_pay"])
    shown = _shown(job, seated)
    for sentence in (*_checking(network, terms, published), *shown):
        click.echo(f"Note: {sentence}.", err=True)
    for warning in (
        *published.warnings,
        *_too_few(stages, trainers),
        *few,
        *_trainers_leave(job),
    ):
        click.echo(f"Warning: {warning}", err=True)
    return published, key


def _begun(
    folder: Path | None, fields: dict[str, Any], read: dict[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The spec's fields and what is published, with a model folder's where there is one. What the
    spec says of the model comes first, and so does a tokenizer that was named."""
    if folder is None:
        return fields, read
    from agents.models.hub import FolderError, read_folder

    if "model_config" in read:
        raise click.UsageError("--model has a config.json of its own; leave out --model-config.")
    try:
        found = read_folder(folder)
    except FolderError as error:
        raise click.ClickException(str(error)) from None
    read = {"model_config": found.config, "weights": found.weights, **read}
    if found.tokenizer is not None and "tokenizer" not in read:
        read |= {"tokenizer": found.tokenizer, "separator": found.separator}
    click.echo(f"It starts from the {found.parameters:,} weights in {folder}.", err=True)
    return {**fields, "model": {**found.fields, **fields.get("model", {})}}, read


def _attacked(network: Any, terms: Any, fields: dict[str, Any], anyway: bool) -> None:
    """Say what attacks on the job bring, or that they can't be played in this installation.

    ClickException where one pays, unless `anyway`.
    """
    from agents.training.spec import SpecError
    from scripts._attacks.embedded import WHERE_PLAYED, lacking
    from scripts._attacks.quick import advice

    if (why := lacking()) is None:
        click.echo("Playing the known attacks on these terms ...", err=True)
    else:
        click.echo(
            f"Warning: The known attacks are not played on these terms, because {why}. One of them "
            f"may pay. {WHERE_PLAYED}",
            err=True,
        )
    try:
        found = advice(network, terms, fields)
    except SpecError as error:
        raise click.ClickException(str(error)) from None
    for sentence in found.notes:
        click.echo(f"Note: {sentence}.", err=True)
    if found.refused is not None and not anyway:
        raise click.ClickException(f"{found.refused} --though-attacks-pay creates it nevertheless.")


def _rounds(fields: dict[str, Any]) -> int:
    """Return how many rounds a spec asks for."""
    from agents.training.spec import JobSpec

    rounds = fields.get("rounds", JobSpec.model_fields["rounds"].default)
    if not isinstance(rounds, int) or isinstance(rounds, bool) or rounds < 1:
        raise click.ClickException(f"rounds: {rounds!r} is no number of rounds.")
    return rounds


def _funded(rounds: int, chosen: int | None) -> int:
    """How many of a job's rounds are paid for now."""
    if chosen is not None and chosen > rounds:
        words = f"the job has {rounds} rounds, and {chosen} would be paid for."
        raise click.BadParameter(words, param_hint="--fund-rounds")
    return rounds if chosen is None else chosen


def _shown(job: Any, trainers: int) -> list[str]:
    """What trainers will be shown of data whose shards have keys of their own."""
    from agents.jobs.seen import seen_sentence

    if not job.own_keys:
        return []
    return [seen_sentence(job.data, job.spec, trainers)]


def _too_few(stages: int, trainers: int) -> list[str]:
    """What a sponsor of a split model should know before it pays."""
    if stages == 1 or trainers >= stages:
        return []
    return [
        f"the model has {stages} stages and {trainers} trainers are registered. A round works only "
        "with a trainer for each stage; until then the escrow is not touched."
    ]


def _few_evaluated(spec: Any, trainers: int) -> list[str]:
    """That validators look at few of a job's trainers, batches or text, and what to change."""
    from agents.jobs.evaluated import few_evaluated, few_measured, held_back, many_sequences

    found = [tell(spec, trainers) for tell in (few_evaluated, held_back, many_sequences)]
    return [sentence for sentence in (*found, few_measured(spec)) if sentence is not None]


def _refuse_riders(job: Any, anyway: bool) -> None:
    """ClickException where noise hides riders whose work is done again, unless `anyway`."""
    from agents.jobs.hidden_riders import riders_hidden
    from agents.runtime.config import TrainerSettings

    why = riders_hidden(job, TrainerSettings())
    if why is not None and not anyway:
        raise click.ClickException(
            f"The job is refused: {why}. --though-attacks-pay creates it nevertheless."
        )


def _refuse_any_size(job: Any, anyway: bool) -> None:
    """ClickException where a payload of any size is merged and nobody finds its sender, unless
    `anyway`."""
    from agents.jobs.combinations.payloads import sizes

    found = sizes(job.spec, job.verification, job.codec, job.privacy)
    if found and not job.verification.redone and not anyway:
        raise click.ClickException(
            f"The job is refused: {found[0]}. --though-attacks-pay creates it nevertheless."
        )


def _trainers_leave(job: Any) -> list[str]:
    """Why trainers with the default settings leave the job, for a sponsor that knows its nodes."""
    from agents.jobs.hidden_riders import riders_hidden
    from agents.jobs.riders import riders_paid
    from agents.runtime.config import TrainerSettings

    settings = TrainerSettings()
    why = riders_paid(job.spec, settings) or riders_hidden(job, settings)
    return [] if why is None else [f"trainers leave this job: {why}"]


def _checking(network: Any, terms: Any, published: Any) -> list[str]:
    """Return what checking a round will take of a verifier, as `agents.jobs.deterrence` has it.

    By the stakes of today's trainers, the smallest ones where there are more than seats; the least
    permitted stake where there is none. Nothing where no work is done again. ClickException where a
    lie costs nothing.
    """
    from agents.jobs.at_stake import read_at_stake
    from agents.mechanisms import verify

    if not verify.get(published.spec.verify).redone:
        return []
    trainers, sample = read_at_stake(network), published.spec.audit_sample
    if not trainers.stakes:
        least = network.chain.call(network.registry, "parameters").trainer_stake
        trainers = replace(trainers, stakes=(least,))
    if undeterred := trainers.undeterred(terms, published.spec):
        raise click.ClickException(f"The job is refused: {undeterred}.")
    found = trainers.checking(terms, sample)
    if not terms.retain_rounds:
        return found.sentences()
    rounds = terms.retain_rounds
    later = float(trainers.checking(terms, sample, rounds).redone)
    return [*found.sentences(), f"once the pay of {rounds} rounds is retained, it is {later:.1f}"]


def _terms(contracts: Contracts, account: Any, rounds: int, given: dict[str, Any]) -> Any:
    """Return the terms that were chosen, with windows that fit the chain where none were named.

    `account`: who creates the job, None where that is not known. The contract itself is asked,
    before there is a spec to name. ClickException where it refuses what was chosen.
    """
    from agents.jobs.publish import Terms, retained_by_default
    from scripts._net.pace import paced
    from scripts._shared.refused_terms import refused_terms

    names = [f"{name}_s".replace("-", "_") for name in (*WINDOWS, *SCORE_WINDOWS)]
    chosen = {name: given[name] for name in names if given[name] is not None}
    chosen |= {
        "reward_per_round": given["reward"],
        "max_nodes": given["max_nodes"],
        "challenge_bond": given["bond"],
        "retain_rounds": given["retain_rounds"],
    }
    if given["verifiers_cut"] is not None:
        chosen["verifier_bps"] = round(100 * given["verifiers_cut"])
    if chosen["retain_rounds"] is None:
        least = contracts.TrainingJobs.bounds().least_retained
        chosen["retain_rounds"] = max(least, retained_by_default(rounds))
    create = contracts.TrainingJobs.create_job

    def ask(terms: Any) -> None:
        some = b"\1" * 32
        by = {} if account is None else {"sender": account}
        rehearse(create, (some, some, some, rounds, *terms.figures()), **by)

    block_s = contracts.block_s()
    refusal = ""
    for windows in (Terms(), Terms.brief()):
        asked = replace(paced(windows, block_s), **chosen)
        try:
            ask(asked)
            return asked
        except Reverted as error:
            if refusal and "bad window" in error.reason:
                break  # a brief one, which nobody chose; a chosen one is refused at first
            refusal, refused = error.reason, asked
        if "windows exceed unbonding" not in refusal:
            break
    unbonding_s = contracts.NodeRegistry.parameters().unbonding_period
    bounds = contracts.TrainingJobs.bounds()
    raise click.ClickException(refused_terms(refusal, refused, bounds, unbonding_s))


def _paid(contracts: Contracts, terms: Any, fields: dict[str, Any], given: dict[str, Any]) -> Any:
    """Return the terms with a verifiers' cut that pays them for doing work again, where work is and
    no cut was named, as `agents.jobs.verifying_pay` has it."""
    from agents.mechanisms import verify
    from scripts._attacks.honest import fairly_paid
    from scripts._attacks.quick import numbers_of

    try:
        redone = verify.get(str(fields.get("verify", "reexecution"))).redone
        if given["verifiers_cut"] is not None or not redone:
            return terms
        return fairly_paid(numbers_of(contracts.network(), terms, fields)).terms
    except ValueError as error:  # a verification or a pipeline that there is not
        raise click.ClickException(str(error)) from None


@cli.command(cls=ConnectedProviderCommand)
@network_option()
@account_option()
@click.argument("job_id", type=click.IntRange(1))
@window_option("score-commit", "Verifiers' time to commit scores", "the job's commit window")
@window_option("score-reveal", "Verifiers' time to reveal them", "the job's reveal window")
@store_option
@yes_option
@deployment_option
@explained
def adopt(
    account: Any,
    job_id: int,
    score_commit_s: int | None,
    score_reveal_s: int | None,
    store: str | None,
    yes: bool,
    deployment: Path | None,
) -> None:
    """Have the scores of verifiers pay for the work of JOB_ID, before its first round.

    ACCOUNT is the job's sponsor. `job create` does this for a job that needs it; what is left of a
    creation that stopped half-way is done with this. It can't be undone.
    """
    from agents.storage.content_store import open_store
    from agents.training.spec import SpecError

    contracts = Contracts(deployment)
    network = contracts.network()
    _check_job(network, job_id)
    terms = network.job(job_id).terms
    try:
        needed = pays_scores(open_store(store_to_read(store, contracts.chain_id)), terms.spec)
    except SpecError as error:
        raise click.ClickException(f"The spec of job {job_id} can't be used: {error}.") from None
    if not needed:
        raise click.ClickException(
            f"The spec of job {job_id} has no verifiers score its work: adopted, it would be paid "
            "by scores that no rule gives, and agents leave such a job."
        )
    windows = (score_commit_s or terms.commit_s, score_reveal_s or terms.reveal_s)
    scores = contracts.ScoreConsensus
    rehearse(scores.adopt, job_id, *windows, sender=account)
    with signing(account, [f"have verifiers' scores pay for the work of job {job_id}"], yes):
        scores.adopt(job_id, *windows, sender=account)
    click.echo(
        f"Job {job_id} is paid by scores: {windows[0]} s to commit, {windows[1]} s to reveal."
    )
    click.echo(f"`ape run job fund {job_id} AMOUNT` pays for its rounds.")


def _known_store(chosen: str | None, chain_id: int) -> str | None:
    """The store meant, None where none was named and there is no localnet's."""
    try:
        return store_to_read(chosen, chain_id)
    except click.ClickException:
        if chosen is not None:
            raise
        return None


def _check_job(network: Any, job_id: int) -> None:
    if not 1 <= job_id <= network.job_count():
        raise click.ClickException(f"There is no job {job_id}; there are {network.job_count()}.")


@cli.command(cls=ConnectedProviderCommand)
@network_option()
@account_option()
@click.argument("job_id", type=click.IntRange(1))
@click.argument("amount", type=ZOO_AMOUNT)
@store_option
@yes_option
@deployment_option
@explained
def fund(
    account: Any, job_id: int, amount: int, store: str | None, yes: bool, deployment: Path | None
) -> None:
    """Pay AMOUNT of ZOO into the escrow of JOB_ID, of which only its sponsor gets any back.

    The payment holds for the job of that id, sponsor and spec alone, as shown before it is made.
    Nothing is paid into a job that agents refuse, because scores are to pay for its work and its
    sponsor has not adopted them: its spec in the store tells.
    """
    from agents.storage.cid import cid_from_digest

    contracts = Contracts(deployment)
    sponsor, spec = contracts.TrainingJobs.origin_of(job_id)
    if not any(spec):
        raise click.ClickException(f"There is no job {job_id}.")
    whose = "you" if sponsor == account.address else sponsor
    click.echo(f"Job {job_id} is sponsored by {whose}; its spec is {cid_from_digest(spec)}.")
    refuse_unadopted(contracts.network(), job_id, _known_store(store, contracts.chain_id))
    pool = contracts.RewardPool
    afford(contracts, account, amount)
    rehearse(pool.fund, job_id, sponsor, spec, amount, sender=account)
    lines = [f"let the reward pool take {zoo(amount)}", f"pay it into the escrow of job {job_id}"]
    with signing(account, lines, yes):
        allow(contracts, account, pool, amount)
        pool.fund(job_id, sponsor, spec, amount, sender=account)
    click.echo(f"Job {job_id} has {zoo(contracts.RewardPool.escrow(job_id))} in escrow.")


@cli.command(cls=ConnectedProviderCommand)
@network_option()
@account_option()
@click.argument("job_id", type=click.IntRange(1))
@yes_option
@deployment_option
@explained
def cancel(account: Any, job_id: int, yes: bool, deployment: Path | None) -> None:
    """End JOB_ID after its running round; `job refund` then returns what is left in its escrow.

    What earlier rounds did not pay and the next one would have goes to the treasury.
    """
    contracts = Contracts(deployment)
    jobs = contracts.TrainingJobs
    rehearse(jobs.cancel_job, job_id, sender=account)
    actions = [f"end job {job_id} after its running round"]
    if carried := contracts.RewardPool.carried(job_id):
        actions.append(f"lose {zoo(carried)} of earlier rounds, which the next one would have paid")
    with signing(account, actions, yes):
        jobs.cancel_job(job_id, sender=account)
    ended = jobs.job_ended(job_id)
    click.echo(f"Job {job_id} is cancelled{'' if ended else ' once its running round is over'}.")
    click.echo(f"Then `ape run job refund {job_id}` returns what is left in its escrow.")


@cli.command(cls=ConnectedProviderCommand)
@network_option()
@account_option()
@click.argument("job_id", type=click.IntRange(1))
@yes_option
@deployment_option
@explained
def refund(account: Any, job_id: int, yes: bool, deployment: Path | None) -> None:
    """Return the unspent escrow of an ended job to its sponsor."""
    pool = Contracts(deployment).RewardPool
    amount = pool.escrow(job_id)
    rehearse(pool.refund, job_id, sender=account)
    with signing(account, [f"return {zoo(amount)} of job {job_id} to its sponsor"], yes):
        pool.refund(job_id, sender=account)
    click.echo(f"{zoo(amount)} went back to the sponsor of job {job_id}.")


@cli.command()
@read_network_option
@click.argument("job_id", type=click.IntRange(1))
@deployment_option
@explained
def show(choice: str, job_id: int, deployment: Path | None) -> None:
    """Show the terms of JOB_ID, its newest round and its money."""
    from rich.console import Console
    from rich.table import Table

    from agents.protocol.numbers import JobStatus, Phase
    from agents.protocol.scores import Consensus
    from agents.storage.cid import cid_from_digest
    from scripts._shared.job_queue import offers, standing

    network = reading(choice, deployment)
    _check_job(network, job_id)
    job = network.job(job_id)
    terms = job.terms
    table = Table(show_header=False, title=f"Job {job_id}")
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    ending = job.status == JobStatus.ACTIVE and job.cancel_requested
    until = ", to be cancelled once its running round is over" if ending else ""
    table.add_row("status", JobStatus(job.status).name.lower() + until)
    table.add_row("sponsor", job.sponsor)
    table.add_row("rounds", f"{job.rounds_done} of {terms.rounds} done")
    if job.rounds_opened:
        round_ = network.round(job_id, job.rounds_opened)
        table.add_row("newest round", f"{job.rounds_opened}, {Phase(round_.phase).name.lower()}")
    table.add_row("reward per round", zoo(terms.reward_per_round))
    table.add_row("escrow", zoo(network.chain.call(network.pool, "escrow", job_id)))
    if carried := network.chain.call(network.pool, "carried", job_id):
        table.add_row("carried", f"{zoo(carried)} of earlier rounds, which the next one pays")
    cuts = f"verifiers {terms.verifier_bps / 100:g} %, aggregator {terms.aggregator_bps / 100:g} %"
    table.add_row("cuts", cuts)
    table.add_row("retained", f"{terms.retain_rounds} rounds' pay of a trainer")
    table.add_row("trainers", standing(offers(network), job_id))
    times = (f"{w} {timedelta(seconds=getattr(terms, f'{w}_s'))}" for w in WINDOWS)
    table.add_row("windows", ", ".join(times))
    commit_s, reveal_s = Consensus(network).windows(job_id)
    if commit_s:
        pair = (timedelta(seconds=commit_s), timedelta(seconds=reveal_s))
        table.add_row("paid by", "verifiers' scores: commit {}, reveal {}".format(*pair))
    table.add_row("spec", cid_from_digest(terms.spec))
    table.add_row("model", "0x" + job.model.hex())
    Console().print(table)
