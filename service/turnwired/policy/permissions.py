"""Whether a call may run, must be asked about or is denied: the rules of a policy held against what a call asks for.

Pure, and linear in the lengths of pattern and text: patterns come from callers. It knows rules and what a tool says of
itself, never a tool, a run or who is asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from turnwired.domain.approval import ApprovalKind, PermissionRequest
from turnwired.domain.permission import DOOM_LOOP, TOOL, UNCLEAR, literal
from turnwired.domain.policy import PermissionAction, PermissionRule, Policy
from turnwired.domain.tool import ToolAnnotations

_STRICTNESS = {
    PermissionAction.ALLOW: 0,
    PermissionAction.ASK: 1,
    PermissionAction.ALWAYS_ASK: 2,
    PermissionAction.DENY: 3,
}
ASKING = frozenset({PermissionAction.ASK, PermissionAction.ALWAYS_ASK})
"""The actions that put a question to a person."""


def matches(pattern: str, text: str) -> bool:
    r"""Whether a pattern covers the whole text. ``*``: any run of characters; ``\*`` a star; ``\\`` a backslash.

    A backslash before anything else is itself.
    """
    pieces = _pieces(pattern)
    first, last = pieces[0], pieces[-1]
    if len(pieces) == 1:
        return text == first
    if len(text) < len(first) + len(last) or not text.startswith(first) or not text.endswith(last):
        return False
    place, end = len(first), len(text) - len(last)
    for piece in pieces[1:-1]:  # the first place is as good as any, so that nothing is ever tried again
        found = text.find(piece, place, end)
        if found < 0:
            return False
        place = found + len(piece)
    return True


@lru_cache(maxsize=1024)
def _pieces(pattern: str) -> tuple[str, ...]:
    """The literal texts between the stars: one more than there are stars."""
    pieces: list[str] = [""]
    place = 0
    while place < len(pattern):
        char = pattern[place]
        if char == "\\" and pattern[place + 1 : place + 2] in {"*", "\\"}:
            place += 1
            pieces[-1] += pattern[place]
        elif char == "*":
            pieces.append("")
        else:
            pieces[-1] += char
        place += 1
    return tuple(pieces)


@dataclass(frozen=True, slots=True)
class Ruling:
    """What is to be done, the kind of question if one is asked, and who says so: a pattern or a path of the policy."""

    action: PermissionAction
    kind: ApprovalKind = ApprovalKind.RULE
    source: str = ""


_ALLOWED = Ruling(PermissionAction.ALLOW)
_EACH_TIME = Ruling(PermissionAction.ALWAYS_ASK, ApprovalKind.RULE, "the deployment")


@dataclass(frozen=True, slots=True)
class Permissions:
    """The permissions of one run.

    The last rule that matches counts; those of the run itself (``run_rules``) come behind all ``rules``. The three
    actions are for what no rule matches. ``parents``: permissions of the runs that this one works for, which it cannot
    exceed: the strictest of all wins.
    """

    rules: tuple[PermissionRule, ...] = ()
    auto_approve: bool = False
    allow_destructive: bool = True
    read_only_action: PermissionAction = PermissionAction.ALLOW
    destructive_action: PermissionAction = PermissionAction.ALLOW
    default_action: PermissionAction = PermissionAction.ALLOW
    parents: tuple[Permissions, ...] = ()
    run_rules: tuple[PermissionRule, ...] = field(default=())

    def decide(self, permission: str, pattern: str, annotations: ToolAnnotations) -> Ruling:
        """The ruling on one thing that is asked for. A tool that calls itself both is taken for destructive."""
        own = self._own(permission, pattern, annotations)
        if not self.parents:
            return own
        return _strictest([own, *(parent.decide(permission, pattern, annotations) for parent in self.parents)])

    def decide_all(self, permission: str, patterns: Iterable[str], annotations: ToolAnnotations) -> Ruling:
        """The strictest ruling on several things that one call asks for."""
        return _strictest([self.decide(permission, pattern, annotations) for pattern in patterns])

    def decide_call(self, routed_name: str, asked: PermissionRequest, annotations: ToolAnnotations) -> Ruling:
        """The ruling on one call, whose tool may ask for something finer than its name.

        Each pattern is held against the rules of its own permission, and where none matches against those of the
        tool; a rule that denies the tool or always asks about it holds besides, as does what the deployment wants to
        be asked each time. The strictest ruling counts.
        """
        if asked.always_ask:
            ruled = self.decide_call(routed_name, replace(asked, always_ask=False), annotations)
            return _strictest([_EACH_TIME, ruled])
        if asked.permission == TOOL:
            return self.decide_all(TOOL, asked.patterns, annotations)
        own = [self._ruled(self._of_call(routed_name, asked.permission, each), annotations) for each in asked.patterns]
        own.append(self._standing(routed_name, asked, annotations))
        return _strictest([*own, *(parent.decide_call(routed_name, asked, annotations) for parent in self.parents)])

    def loop_action(self, routed_name: str) -> PermissionAction:
        """What is done about a call of this tool that goes round in circles.

        DENY where the last rule that matches denies. ALLOW only where that rule is about circles by name, such as one
        that a person has added: a rule about everything was not made for this. Else it is asked, whatever else says.
        """
        rule = self._last(DOOM_LOOP, routed_name)
        action = PermissionAction.ALWAYS_ASK
        if rule is not None and rule.action is PermissionAction.DENY:
            action = PermissionAction.DENY
        elif rule is not None and rule.action is PermissionAction.ALLOW and rule.permission == DOOM_LOOP:
            action = PermissionAction.ALLOW
        actions = [action, *(parent.loop_action(routed_name) for parent in self.parents)]
        return max(actions, key=_STRICTNESS.__getitem__)

    def rules_allow(self, routed_name: str, permission: str, patterns: Sequence[str]) -> bool:
        """Whether rules alone, and not what a tool says of itself, allow all of this call without a question."""
        rules = [self._of_call(routed_name, permission, pattern) for pattern in patterns]
        if permission != TOOL and (tools := self._last(TOOL, routed_name)) is not None and _stands(tools):
            return False
        for rule in rules:
            asks = rule is not None and rule.action is PermissionAction.ASK and self.auto_approve
            if rule is None or not (asks or rule.action is PermissionAction.ALLOW):
                return False
        return all(parent.rules_allow(routed_name, permission, patterns) for parent in self.parents)

    def with_rules(self, added: Sequence[PermissionRule]) -> Permissions:
        """The permissions with rules that a person has added for the session: behind its own, before those of the run.

        They hold for the parents too: who answers, answers for all of them.
        """
        if not added:
            return self
        parents = tuple(parent.with_rules(added) for parent in self.parents)
        return replace(self, rules=(*self.rules, *added), parents=parents)

    def _own(self, permission: str, pattern: str, annotations: ToolAnnotations) -> Ruling:
        return self._ruled(self._last(permission, pattern), annotations)

    def _ruled(self, rule: PermissionRule | None, annotations: ToolAnnotations) -> Ruling:
        if annotations.destructive and not self.allow_destructive:
            return Ruling(PermissionAction.DENY, ApprovalKind.DESTRUCTIVE, "approval.allow_destructive")
        if rule is not None:
            ruling = Ruling(rule.action, ApprovalKind.RULE, rule.pattern)
        elif annotations.destructive:
            ruling = Ruling(self.destructive_action, ApprovalKind.DESTRUCTIVE, "approval.destructive_action")
        elif annotations.read_only:
            ruling = Ruling(self.read_only_action, ApprovalKind.RULE, "approval.read_only_action")
        else:
            ruling = Ruling(self.default_action, ApprovalKind.RULE, "approval.default_action")
        if ruling.action is PermissionAction.ASK and self.auto_approve:
            return replace(ruling, action=PermissionAction.ALLOW)
        return ruling

    def _standing(self, routed_name: str, asked: PermissionRequest, annotations: ToolAnnotations) -> Ruling:
        """What holds beside the rules of a finer permission: the tool's, and those that deny what it is unclear about.

        ``$(...)`` around a command that is denied must not turn the denial into a question.
        """
        rule = self._last(TOOL, routed_name)
        if not asked.patterns or (rule is not None and _stands(rule)):
            return self._ruled(rule, annotations)
        if asked.permission.endswith(UNCLEAR):
            plain = asked.permission.removesuffix(UNCLEAR)
            denying = [self._last(plain, pattern) for pattern in asked.patterns]
            for rule in denying:
                if rule is not None and rule.action is PermissionAction.DENY:
                    return self._ruled(rule, annotations)
        return _ALLOWED

    def _of_call(self, routed_name: str, permission: str, pattern: str) -> PermissionRule | None:
        """The rule about one thing that a call asks for: of its own permission, else of its tool.

        What is unclear no rule allows but one of exactly that name: others were not written with it in mind.
        """
        rule = self._last(permission, pattern) or self._last(TOOL, routed_name)
        if not permission.endswith(UNCLEAR):
            return rule
        if rule is None or (rule.action is PermissionAction.ALLOW and rule.permission != permission):
            return PermissionRule(permission, pattern, PermissionAction.ASK)
        return rule

    def _last(self, permission: str, pattern: str) -> PermissionRule | None:
        for rules in (self.run_rules, self.rules):
            for rule in reversed(rules):
                if matches(rule.pattern, pattern) and matches(rule.permission, permission):
                    return rule
        return None


def permissions_of(policy: Policy, run_rules: int = 0) -> Permissions:
    """The permissions of a merged policy; the last ``run_rules`` of its rules are those of the run's own layer.

    Raises ValueError for a policy that was not merged: a leaf is missing.
    """
    approval = policy.approval
    if (
        approval.auto_approve is None
        or approval.allow_destructive is None
        or approval.read_only_action is None
        or approval.destructive_action is None
        or approval.default_action is None
    ):
        raise ValueError("not an effective policy: settings of approval are missing")
    lower = len(approval.rules) - run_rules
    return Permissions(
        rules=approval.rules[:lower],
        auto_approve=approval.auto_approve,
        allow_destructive=approval.allow_destructive,
        read_only_action=approval.read_only_action,
        destructive_action=approval.destructive_action,
        default_action=approval.default_action,
        run_rules=approval.rules[lower:],
    )


def asking_for(routed_name: str) -> PermissionRequest:
    """What a call asks for whose tool says nothing finer."""
    return PermissionRequest(TOOL, (routed_name,), (literal(routed_name),), f"Call {routed_name}?")


def _stands(rule: PermissionRule) -> bool:
    """Whether a rule about a tool holds whatever is said of the finer things that it asks for."""
    return rule.action in {PermissionAction.DENY, PermissionAction.ALWAYS_ASK}


def _strictest(rulings: Sequence[Ruling]) -> Ruling:
    return max(rulings, key=lambda ruling: _STRICTNESS[ruling.action], default=_ALLOWED)
