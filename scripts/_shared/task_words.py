# SPDX-License-Identifier: Apache-2.0
"""A redundant task in words: where it stands, who acts next and until when, what came out.

The functions here read nothing. They put into words what the contracts returned.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from typing import Any

from agents.protocol.formulas import UNAVAILABLE
from agents.protocol.numbers import LaneState, TaskStatus
from agents.storage.canonical import loads
from agents.storage.cid import cid_of_bytes
from agents.tasks.contract import Task

_LANES = {
    LaneState.RUNNING: "computing",
    LaneState.COMMITTED: "committed",
    LaneState.REVEALED: "revealed a result of its own",
    LaneState.ABORTED: "silent: slashed",
    LaneState.AGREED: "agreed",
    LaneState.OPENED: "agreed, and showed the result",
}
_SHOWN = 200  # characters of a generated text

Label = Callable[[int], str]


class NoAnswer(ValueError):
    """Bytes that no node makes that runs the task; the message says why."""


def plain(node_id: int) -> str:
    """How a node is named where nothing else is known of it."""
    return f"node {node_id}"


def lane_rows(task: Task, label: Label = plain) -> list[tuple[str, str, str, str]]:
    """One row per lane: its number, the node, its state, and what it has put on chain."""
    rows = []
    for lane, (node, state, answer) in enumerate(
        zip(task.nodes, task.states, task.answers, strict=True)
    ):
        kind = {
            LaneState.COMMITTED: "commitment",
            LaneState.OPENED: "result",
            LaneState.REVEALED: "tag",
            LaneState.AGREED: "tag",
        }.get(state)
        shown = f"{kind} {bytes(answer).hex()[:16]}…" if kind else "-"
        rows.append((str(lane), label(node), _LANES[state], shown))
    return rows


def sentence(
    task: Task,
    appeal: Any,
    now: int,
    expected: Iterable[int],
    label: Label = plain,
    decided: bool | None = None,
) -> str:
    """Where a task stands and who acts next.

    Args:
        task: the task.
        appeal: the struct Appeal of TaskAppeals; all zero when there was none.
        now: chain time, seconds.
        expected: node ids that a draw would take now.
        label: how a node is named.
        decided: whether the committee decided on an objection that has ended; None where that is
            not known.
    """
    text = _sentence(task, appeal, now, expected, label, decided)
    return text[:1].upper() + text[1:]


def _sentence(
    task: Task,
    appeal: Any,
    now: int,
    expected: Iterable[int],
    label: Label,
    decided: bool | None,
) -> str:
    status = task.status
    left = timedelta(seconds=max(0, task.time - now))
    over = now > task.time
    agreed = _names(task, label, LaneState.AGREED, LaneState.OPENED)
    if status == TaskStatus.DRAWING:
        return _drawing(task, now, list(expected), label)
    if status in (TaskStatus.RUNNING, TaskStatus.REVEALING):
        running = status == TaskStatus.RUNNING
        late = _names(task, label, LaneState.RUNNING if running else LaneState.COMMITTED)
        deed = "compute and commit" if running else "reveal"
        if over:
            return (
                f"{late} did not {deed} in time. Anyone may `advance` the task: that slashes the "
                "silent and goes on without them."
            )
        return f"Waiting for {late} to {deed}, for {left} at most; silence is slashed."
    if status == TaskStatus.AGREED:
        end = "That is final." if over else f"Anyone may appeal for another {left}."
        return f"{agreed} agree and are paid. {end}"
    if status == TaskStatus.DECIDED:
        odd = _names(task, label, LaneState.REVEALED)
        end = (
            "Anyone may `finalize` the task now, which pays and slashes."
            if over
            else f"Unless somebody appeals, that happens in {left}."
        )
        return f"{agreed} agree and are to be paid; {odd} is alone and to be slashed. {end}"
    if status == TaskStatus.UNDECIDED:
        tail = f" Anyone may appeal for another {left}." if task.appealable(now) else ""
        return f"No two results are equal: the creator has the fee back.{tail}"
    if status == TaskStatus.APPEALED:
        return _appealed(appeal, now)
    if task.result == UNAVAILABLE:
        return (
            f"Over: {agreed} found that the inputs can't be had. The creator has the fee back, less"
            " the least fee of the time that they were given."
        )
    return _closed(appeal, agreed, decided)


def _appealed(appeal: Any, now: int) -> str:
    left = timedelta(seconds=max(0, appeal.deadline - now))
    if appeal.result == bytes(32):
        return (
            f"{appeal.appellant} appealed. Verifiers run the task again and give a verdict within "
            f"{left}; nothing is paid or slashed until then."
        )
    if int(appeal.objector, 16) == 0:
        return (
            f"Verifiers gave a verdict. Unless somebody objects within {left}, it is carried out; "
            "nothing is paid or slashed until then."
        )
    return (
        f"{appeal.objector} objects to the verifiers' verdict. The committee names the result "
        f"within {left}; nothing is paid or slashed until then."
    )


def _drawing(task: Task, now: int, expected: list[int], label: Label) -> str:
    if expected:
        who = " and ".join(map(label, expected))
        return f"{who} will be drawn by the next `draw` or by their own first commitment."
    count = "Another executor is" if task.wanted == 1 else "Two executors are"
    left = timedelta(seconds=max(0, task.draw_until - now))
    return (
        f"{count} being drawn, from the hash of block {task.seed_block}. While all are busy the "
        f"task waits, for {left} at most; then the fee goes back."
    )


def _closed(appeal: Any, agreed: str, decided: bool | None) -> str:
    if appeal.decided_at == 0:
        return f"Over: {agreed} agreed and are paid; who was alone is slashed."
    if appeal.result == bytes(32):
        return "Over: verifiers gave no verdict in time, so nobody is slashed for its result."
    if int(appeal.objector, 16) and not decided:
        verb = "overturned" if appeal.overturned else "confirmed"
        asked = f"Over: verifiers {verb} the outcome, and {appeal.objector} objected."
        if decided is None:
            return f"{asked} Who was wrong is slashed if the committee decided on that in time."
        return (
            f"{asked} The committee did not decide on that in time, so nobody is slashed; bonds "
            "and a fee that was held go where the verdict sends them."
        )
    if appeal.overturned:
        return (
            "Over: verifiers overturned the outcome. Whoever revealed another result than theirs "
            "is slashed, the creator has the fee back, and who was right is made whole."
        )
    return f"Over: verifiers confirmed the outcome; {agreed or 'nobody'} agreed."


def _names(task: Task, label: Label, *states: LaneState) -> str:
    lanes = zip(task.nodes, task.states, strict=True)
    return " and ".join(label(node) for node, state in lanes if state in states)


def result_lines(
    kind: str,
    payload: bytes,
    spec: bytes | None = None,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
) -> list[str]:
    """What came out of a task, for people.

    Args:
        kind: its spec's.
        payload: strangers' bytes, which two who collude choose as they like.
        spec: the spec's digest; None where it isn't compared with the payload's.
        shapes: of the model whose checkpoint train_steps gives; None where that isn't read.

    Raises:
        NoAnswer: no task of this kind gives these bytes.
    """
    try:
        return _result_lines(kind, payload, spec, shapes)
    except NoAnswer:
        raise
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        raise NoAnswer(str(error).rstrip(".") or type(error).__name__) from None


def _result_lines(
    kind: str,
    payload: bytes,
    spec: bytes | None,
    shapes: Mapping[str, tuple[int, ...]] | None,
) -> list[str]:
    cid = cid_of_bytes(payload)
    if kind == "train_steps" and not payload.startswith(b'{"refused"'):
        if shapes is not None:
            from agents.training.state import load_state

            load_state(payload, shapes)
        return [f"A new checkpoint of {len(payload):,} bytes, CID {cid}."]
    content = loads(payload)
    if not isinstance(content, dict):
        raise NoAnswer("it is no object of JSON")
    if set(content) == {"refused"}:
        from agents.tasks.compute.errors import REASONS

        reason = content["refused"]
        if reason not in REASONS:
            raise NoAnswer("it refuses the task for no known reason")
        return [f"The nodes refused the task: {reason} ({REASONS[reason]})."]
    if content["kind"] != kind or (spec is not None and content["spec"] != spec.hex()):
        raise NoAnswer("it is of another task")
    if kind == "evaluate":
        loss, tokens = float.fromhex(content["loss"]), _whole(content["tokens"])
        if not math.isfinite(loss):
            raise NoAnswer(f"its loss is {loss}")
        return [f"Loss {loss:.6f} nats per token, over {tokens:,} tokens; CID {cid}."]
    if kind == "generate":
        lines = [f"{len(content['outputs'])} outputs, CID {cid}."]
        for number, output in enumerate(content["outputs"], start=1):
            text, tokens = output["text"], [_whole(token) for token in output["tokens"]]
            if not isinstance(text, str | None):
                raise NoAnswer(f"the text of output {number} is none")
            shown = str(tokens) if text is None else repr(text)
            lines.append(f"{number}. {shown[:_SHOWN]}{'…' if len(shown) > _SHOWN else ''}")
        return lines
    return [f"{len(payload):,} bytes, CID {cid}."]


def _whole(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise NoAnswer("a token in it is no number")
    return value
