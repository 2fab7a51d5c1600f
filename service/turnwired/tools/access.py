"""Who may see and call which tools: rules from roles to patterns of routed names. Pure; knows no source and no run.

Listing and calling ask the same question. Operator tools are for the role ``operator`` whatever the rules say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from turnwired.domain.run import OPERATOR_ROLE
from turnwired.domain.tool import ToolRef, ToolSource
from turnwired.tools.naming import Patterns, pattern_of, prefix_of

_MOST_KEPT: Final = 1000
Allows = Callable[[frozenset[str], ToolRef], bool]
"""Whether somebody with these roles may have a tool now. A tool of the caller's own is always its own."""


@dataclass(frozen=True, slots=True)
class AccessRule:
    """What it says of tools whose routed names match. ``roles`` empty: it holds for every caller."""

    roles: frozenset[str] = frozenset()
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()

    def holds_for(self, roles: frozenset[str]) -> bool:
        """Whether it is about a caller with these roles."""
        return not self.roles or not self.roles.isdisjoint(roles)


@dataclass(frozen=True, slots=True)
class Access:
    """The rules of a deployment. Without any every tool is everybody's; with one, what no rule allows is nobody's.

    A rule that denies wins over all that allow.
    """

    rules: tuple[AccessRule, ...] = ()
    _patterns: dict[frozenset[str], tuple[Patterns, Patterns]] = field(
        init=False, repr=False, compare=False, default_factory=dict[frozenset[str], tuple[Patterns, Patterns]]
    )

    def scope(self, roles: Iterable[str]) -> frozenset[str]:
        """Those of the roles that make a difference: callers with the same ones see the same tools."""
        if not roles:
            return frozenset()
        named = {OPERATOR_ROLE}.union(*(rule.roles for rule in self.rules))
        return frozenset(named.intersection(roles))

    def allows(self, roles: frozenset[str], ref: ToolRef) -> bool:
        """Whether somebody with these roles may see and call the tool."""
        if ref.source is ToolSource.OPERATOR and OPERATOR_ROLE not in roles:
            return False
        if not self.rules or ref.source is ToolSource.CLIENT:
            return True
        allow, deny = self._patterns_of(roles)
        name = ref.routed_name
        return not deny.match(name) and allow.match(name)

    def may_have(self, roles: frozenset[str], namespace: str | None, kind: ToolSource) -> bool:
        """Whether somebody with these roles could be allowed any tool of a source, whatever tools it has."""
        if kind is ToolSource.OPERATOR and OPERATOR_ROLE not in roles:
            return False
        if not self.rules:
            return True
        allow, deny = self._patterns_of(roles)
        prefix = prefix_of(namespace)
        return allow.may_match(prefix) and not deny.match_all(prefix)

    def _patterns_of(self, roles: frozenset[str]) -> tuple[Patterns, Patterns]:
        """What somebody with these roles is allowed and denied. Kept: a listing asks for every tool."""
        scope = self.scope(roles)
        kept = self._patterns.get(scope)
        if kept is None:
            mine = [rule for rule in self.rules if rule.holds_for(scope)]
            allow = pattern_of(tuple(pattern for rule in mine for pattern in rule.allow))
            kept = allow, pattern_of(tuple(pattern for rule in mine for pattern in rule.deny))
            if len(self._patterns) < _MOST_KEPT:
                self._patterns[scope] = kept
        return kept


EVERYBODY: Final[Allows] = Access().allows
"""Without rules."""
