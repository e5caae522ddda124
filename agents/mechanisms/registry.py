# SPDX-License-Identifier: Apache-2.0
"""The register of mechanisms: one file of one folder each, found by its file name only.

A job spec names its mechanisms. A name reaches an import only if it is a plain identifier and a
file of that name lies in the folder's own package; nothing else a spec names is ever imported or
executed.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from functools import cached_property
from typing import Any, TypeVar

T = TypeVar("T")


class UnknownMechanism(ValueError):
    """A spec names a mechanism that its folder does not hold."""


class MechanismRegistry:
    """The mechanisms of one package: `register` in the mechanism's file, `get` where it is used."""

    def __init__(self, package: str, kind: str) -> None:
        """`package`: dotted name of the folder's package. `kind`: what an error calls one."""
        self._package = package
        self._kind = kind
        self._found: dict[str, Any] = {}

    def register(self, name: str) -> Callable[[T], T]:
        """Decorator: make the object the mechanism `name`.

        The object must be defined in the file `<name>.py` of this package, else ValueError.
        """

        def keep(thing: T) -> T:
            module = getattr(thing, "__module__", None)
            if module != f"{self._package}.{name}":
                raise ValueError(
                    f"The {self._kind} {name!r} is registered in {module}; "
                    f"move it to the file {name}.py of {self._package}."
                )
            self._found[name] = thing
            return thing

        return keep

    def get(self, name: object) -> Any:
        """The mechanism `name`; UnknownMechanism, listing those that exist, if there is none."""
        if isinstance(name, str) and name in self._files:
            importlib.import_module(f"{self._package}.{name}")
            if name in self._found:
                return self._found[name]
        raise UnknownMechanism(
            f"There is no {self._kind} {str(name)[:64]!r}; choose one of: "
            f"{', '.join(self.names())}."
        )

    def names(self) -> list[str]:
        """Names of all mechanisms of the folder, sorted."""
        for name in self._files:
            importlib.import_module(f"{self._package}.{name}")
        return sorted(self._found)

    @cached_property
    def _files(self) -> list[str]:
        package = importlib.import_module(self._package)
        return [
            entry.name
            for entry in pkgutil.iter_modules(package.__path__)
            if entry.name.isidentifier() and not entry.ispkg
        ]
