# SPDX-License-Identifier: Apache-2.0
"""The parts of docs/ that are written by the sources themselves.

    python -m tests.docs.reference        rewrites docs/contracts.md and docs/settings.md

Rule: a revert reason or an event stands in the documentation because it stands in the function's
code, or in that of an internal function it calls, and for no other reason.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from agents.runtime.config import PREFIX, describe_settings

ROOT = Path(__file__).resolve().parents[2]
CONTRACTS = (
    "NodeRegistry",
    "NodeBenchmarks",
    "TrainingJobs",
    "TrainingRounds",
    "TrainingResults",
    "ViolationReports",
    "RewardPool",
    "TrainingLedger",
    "ScoreConsensus",
    "RedundantTasks",
    "TaskAppeals",
    "DataKeys",
    "Coordinator",
    "Lens",
)
# Modules of snekmate, of which only what is called here matters.
_FOREIGN = {
    "ownable._check_owner": ("ownable: caller is not the owner",),
    "ecdsa._recover_sig": ("ecdsa: invalid signature", "ecdsa: invalid signature `s` value"),
}
_FUNCTION = re.compile(r"^((?:@[^\n]*\n)+)def (\w+)\((.*?)\)[^\n]*?:\n(.*?)(?=^\S|\Z)", re.M | re.S)
_REASON = re.compile(r'"((?:[a-z]+): [^"]+)"')
_EVENT = re.compile(r"\blog I?\w+\.(\w+)\(")
_CALL = re.compile(r"\b(self|[a-z_0-9]+)\.(_\w+)\(")
_EXTERNAL = re.compile(r"\bextcall I(\w+)\([^()]*(?:\([^()]*\))?[^()]*\)\.(\w+)\(")
_DOC = re.compile(r'"""(.*?)"""', re.S)


@dataclass
class Function:
    """A function of a contract or module. `reasons` and `events` are its own, `calls` internal."""

    name: str
    arguments: list[str]
    external: bool
    view: bool
    notice: str
    reasons: list[str]
    events: list[str]
    extcalls: list[str]
    calls: list[tuple[str, str]]


@dataclass
class Source:
    """A contract or module; `exports` are functions of modules that it makes external."""

    name: str
    notice: str
    kill: str
    functions: dict[str, Function] = field(default_factory=dict)
    exports: list[tuple[str, str]] = field(default_factory=list)


def read_source(path: Path) -> Source:
    """Parse one Vyper file of this project's style."""
    text = path.read_text(encoding="utf-8")
    head = _DOC.search(text)
    assert head is not None
    # The first paragraph; the rest of a contract's notice is for those who read its code.
    notice = _tag(head[1].replace("\n\n", "\n@dev "), "notice")
    source = Source(path.stem, notice, _tag(head[1], "custom:kill"))
    exported = re.search(r"^exports: (?:\((.*?)\)|(\S+))$", text, re.M | re.S)
    if exported is not None:
        names = re.findall(r"(\w+)\.(\w+)", exported[1] or exported[2])
        source.exports = [(module, name) for module, name in names]
    for decorators, name, arguments, body in _FUNCTION.findall(text):
        doc = _DOC.search(body)
        code = body if doc is None else body.replace(doc[0], "", 1)
        code = re.sub(r"#.*", "", code)
        source.functions[name] = Function(
            name=name,
            arguments=re.findall(r"(\w+):", arguments),
            external="@external" in decorators,
            view="@view" in decorators or "@pure" in decorators,
            notice=_tag(doc[1], "notice") if doc else "",
            reasons=_REASON.findall(code),
            events=_EVENT.findall(code),
            extcalls=[f"{contract}.{call}" for contract, call in _EXTERNAL.findall(code)],
            calls=_CALL.findall(code),
        )
    return source


def _tag(doc: str, name: str) -> str:
    found = re.search(rf"@{name} (.*?)(?=\n\s*@|\Z)", doc, re.S)
    return "" if found is None else " ".join(found[1].split())


class Reader:
    """All contracts and modules, and what a function does with everything that it calls."""

    def __init__(self) -> None:
        paths = [ROOT / "contracts" / f"{name}.vy" for name in CONTRACTS]
        paths += sorted((ROOT / "contracts" / "modules").glob("*.vy"))
        self.sources = {path.stem: read_source(path) for path in paths}

    def deep(self, source: str, name: str) -> tuple[list[str], list[str], list[str]]:
        """Reasons, events and calls of other contracts, each once, in order of appearance."""
        found: tuple[list[str], list[str], list[str]] = ([], [], [])
        self._walk(source, name, found, set())
        return tuple(list(dict.fromkeys(part)) for part in found)  # type: ignore[return-value]

    def _walk(
        self,
        source: str,
        name: str,
        found: tuple[list[str], list[str], list[str]],
        seen: set[tuple[str, str]],
    ) -> None:
        if (source, name) in seen:
            return
        seen.add((source, name))
        if f"{source}.{name}" in _FOREIGN:
            found[0].extend(_FOREIGN[f"{source}.{name}"])
        place = self.sources.get(source)
        function = place and place.functions.get(name)
        if function is None:
            return
        for part, own in zip(
            found, (function.reasons, function.events, function.extcalls), strict=True
        ):
            part.extend(own)
        for module, callee in function.calls:
            self._walk(source if module == "self" else module, callee, found, seen)


def contracts_page() -> str:
    reader = Reader()
    lines = [
        "# Contracts, function by function",
        "",
        "Written by `python -m tests.docs.reference` from the sources; `make test` fails when it "
        "is out of date. *Requirements* are the revert reasons in the function and in the internal "
        "functions it calls; a called contract adds its own. [protocol.md](protocol.md) says how "
        "the functions work together.",
        "",
    ]
    for name in CONTRACTS:
        source = reader.sources[name]
        lines += [f"## {name}", "", source.notice, ""]
        if source.kill:
            lines += [f"*How it is stopped:* {source.kill}", ""]
        changing = [(name, f) for f in source.functions.values() if f.external and not f.view]
        for module, exported in source.exports:
            function = reader.sources[module].functions.get(exported) if _ours(module) else None
            if function is not None and not function.view:
                changing.append((module, function))
        for place, function in changing:
            lines += _entry(reader, place, function)
        views = [f.name for f in source.functions.values() if f.external and f.view]
        if views:
            lines += ["*Views:* " + ", ".join(f"`{view}`" for view in views), ""]
    return "\n".join(lines).rstrip() + "\n"


def _ours(module: str) -> bool:
    return (ROOT / "contracts" / "modules" / f"{module}.vy").exists()


def _entry(reader: Reader, place: str, function: Function) -> list[str]:
    reasons, events, calls = reader.deep(place, function.name)
    lines = [f"### `{function.name}({', '.join(function.arguments)})`", "", function.notice, ""]
    for title, items in (("Requirements", reasons), ("Events", events), ("Calls", calls)):
        if items:
            lines.append(f"- *{title}:* " + ", ".join(f"`{item}`" for item in items))
    return [*lines, ""]


def settings_page() -> str:
    lines = [
        "# Settings of an agent",
        "",
        "Written by `python -m tests.docs.reference` from `agents/runtime/config.py`; `make test` "
        "fails when it is out of date. A setting comes from `--set NAME=VALUE`, else from the "
        f"environment (`{PREFIX}RPC_URL`; in a section `{PREFIX}TRAINER__COMPILE`), else from the "
        "`--config` file (TOML or YAML; sections are tables), else it has its default.",
        "",
        "| setting | default | meaning |",
        "|---|---|---|",
    ]
    for info in describe_settings():
        default = "" if info.default is None else f"`{info.default}`"
        lines.append(f"| `{info.name}` | {default} | {info.help} |")
    return "\n".join(lines) + "\n"


PAGES = {"contracts.md": contracts_page, "settings.md": settings_page}


def main() -> None:
    for name, page in PAGES.items():
        (ROOT / "docs" / name).write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
