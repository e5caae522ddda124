# SPDX-License-Identifier: Apache-2.0
"""The table of views that depend on the block says what the contracts' sources say."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from vyper import ast

from agents.protocol.views import OF_THE_BLOCK

ROOT = Path(__file__).resolve().parents[3]


def static() -> ModuleType:
    spec = importlib.util.spec_from_file_location("static", ROOT / ".ci" / "vyper_static.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def bodies(tools: ModuleType, function: Any) -> Iterator[Any]:
    """A function and all internal ones that it reaches."""
    todo, seen = [function], set()
    while todo:
        body = todo.pop()
        if id(body) not in seen:
            seen.add(id(body))
            yield body
            inner = (tools.function_of(call) for call in body.get_descendants(ast.Call))
            todo += [one for one in inner if one is not None]


def looks_at_the_block(body: Any) -> bool:
    members = body.get_descendants(ast.Attribute)
    calls = body.get_descendants(ast.Call)
    return any(isinstance(m.value, ast.Name) and m.value.id == "block" for m in members) or any(
        isinstance(c.func, ast.Name) and c.func.id in ("blockhash", "raw_call") for c in calls
    )


def test_the_views_that_depend_on_the_block_are_those_whose_code_looks_at_it() -> None:
    tools = static()
    views, asks, found = set(), {}, set()
    for path in sorted((ROOT / "contracts").glob("*.vy")):
        kind = tools.compiled(path).annotated_vyper_module._metadata["type"]
        for function in kind.exposed_functions:
            if not isinstance(function.decl_node, ast.FunctionDef):
                continue  # the getter of a public variable
            name = f"{path.stem}.{function.name}"
            parts = list(bodies(tools, function.decl_node))
            # Whichever contract has a view of that name: too many is on the safe side.
            asks[name] = {
                tools.called(call)
                for part in parts
                for call in part.get_descendants(ast.StaticCall)
            }
            if any(map(looks_at_the_block, parts)):
                found.add(name)
            if not function.is_mutable:
                views.add(name)
    while more := {
        name
        for name in asks.keys() - found
        if asks[name] & {other.split(".")[1] for other in found & views}
    }:
        found |= more
    assert found & views == OF_THE_BLOCK
