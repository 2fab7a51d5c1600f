"""Rules of permission held against calls: patterns, order, defaults, and what cannot be overruled."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnwired.domain.approval import ApprovalKind, PermissionRequest
from turnwired.domain.permission import literal
from turnwired.domain.policy import ApprovalPolicy, PermissionAction, PermissionRule, Policy, PolicyLayer
from turnwired.domain.tool import ToolAnnotations
from turnwired.policy.merge import Layer, merge
from turnwired.policy.permissions import Permissions, matches, permissions_of

ALLOW, ASK, DENY, ALWAYS_ASK = (
    PermissionAction.ALLOW,
    PermissionAction.ASK,
    PermissionAction.DENY,
    PermissionAction.ALWAYS_ASK,
)
PLAIN = ToolAnnotations()
READS = ToolAnnotations(read_only=True)
DESTROYS = ToolAnnotations(destructive=True)
BOTH = ToolAnnotations(read_only=True, destructive=True)


def rule(pattern: str, action: PermissionAction, permission: str = "tool") -> PermissionRule:
    return PermissionRule(permission, pattern, action)


def action(permissions: Permissions, name: str, annotations: ToolAnnotations = PLAIN) -> PermissionAction:
    return permissions.decide("tool", name, annotations).action


def oracle(pattern: str, text: str) -> bool:
    """The same by definition: each piece of the pattern, and every way to place a star."""
    tokens: list[str | None] = []
    place = 0
    while place < len(pattern):
        if pattern[place] == "\\" and place + 1 < len(pattern) and pattern[place + 1] in "*\\":
            tokens.append(pattern[place + 1])
            place += 2
        else:
            tokens.append(None if pattern[place] == "*" else pattern[place])
            place += 1
    reached = {0}
    for token in tokens:
        if token is None:
            reached = {end for start in reached for end in range(start, len(text) + 1)}
        else:
            reached = {start + 1 for start in reached if text[start : start + 1] == token}
    return len(text) in reached


SHORT = st.text("ab*\\/", max_size=8)


@pytest.mark.requirement("WAIT-1")
@given(SHORT, st.text("ab*\\/", max_size=10))
def test_patterns_match_as_their_definition_says(pattern: str, text: str) -> None:
    assert matches(pattern, text) == oracle(pattern, text)


@pytest.mark.requirement("WAIT-1", "WAIT-13")
@given(st.text("ab*\\é", max_size=8), st.text("ab*\\é", max_size=8))
def test_a_literal_pattern_matches_its_text_and_nothing_else(text: str, other: str) -> None:
    assert matches(literal(text), text)
    assert matches(literal(text), other) == (text == other)
    assert matches(literal("grep 'on.*'"), "grep 'on.*'")
    assert not matches(literal("grep 'on.*'"), "grep 'on.; cat /etc/passwd'")


@pytest.mark.requirement("WAIT-1")
@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        ("github_*", "github_create_issue", True),
        ("*", "", True),
        ("src/*", "src/a/b/c.py", True),
        ("*.py", "src/a.pyc", False),
        ("a*a", "a", False),
        (r"grep on.\*", "grep on.*", True),
        (r"grep on.\*", "grep on.; cat /etc/passwd", False),
        (r"\\*", "\\anything", True),
        ("tail\\", "tail\\", True),
    ],
)
def test_a_star_crosses_separators_and_an_escaped_one_is_itself(pattern: str, text: str, expected: bool) -> None:
    assert matches(pattern, text) is expected


@pytest.mark.requirement("WAIT-1")
def test_a_hostile_pattern_takes_no_longer_than_its_length() -> None:
    pattern, text = "*a" * 20_000 + "b", "a" * 200_000
    began = time.process_time()
    assert not matches(pattern, text)
    assert time.process_time() - began < 5, "a matcher that tries again would take years"


@pytest.mark.requirement("WAIT-2")
def test_the_last_rule_that_matches_counts_and_those_of_the_run_come_last() -> None:
    permissions = Permissions((rule("*", ASK), rule("git_*", ALLOW), rule("git_push", DENY)))
    assert [action(permissions, name) for name in ("mail", "git_log", "git_push")] == [ASK, ALLOW, DENY]
    run = Permissions(permissions.rules, run_rules=(rule("git_*", ALWAYS_ASK),))
    assert [action(run, name) for name in ("mail", "git_log", "git_push")] == [ASK, ALWAYS_ASK, ALWAYS_ASK]
    assert permissions.decide("tool", "git_push", PLAIN).source == "git_push"


@pytest.mark.requirement("WAIT-2")
def test_a_rule_about_another_permission_says_nothing_and_a_star_says_all() -> None:
    permissions = Permissions((rule("*", DENY, "shell"), rule("look", ASK, "*")))
    assert [action(permissions, name) for name in ("look", "write")] == [ASK, ALLOW]
    assert permissions.decide("shell", "ls", PLAIN).action is DENY
    assert permissions.decide_all("shell", ("look", "ls"), PLAIN).action is DENY
    assert permissions.decide_all("shell", ("look", "look"), PLAIN).action is ASK


@pytest.mark.requirement("WAIT-2", "WAIT-3")
def test_where_no_rule_matches_the_tools_own_word_decides() -> None:
    permissions = permissions_of(merge([]).policy)
    rulings = [permissions.decide("tool", "any", each) for each in (PLAIN, READS, DESTROYS, BOTH)]
    assert [ruling.action for ruling in rulings] == [ALLOW, ALLOW, ASK, ASK]
    assert [ruling.kind for ruling in rulings[2:]] == [ApprovalKind.DESTRUCTIVE] * 2
    strict = Permissions(read_only_action=ASK, destructive_action=DENY, default_action=ALWAYS_ASK)
    assert [action(strict, "any", each) for each in (PLAIN, READS, DESTROYS)] == [ALWAYS_ASK, ASK, DENY]
    ruled = Permissions((rule("*", ALLOW),), destructive_action=DENY)
    assert action(ruled, "any", DESTROYS) is ALLOW


@pytest.mark.requirement("WAIT-3")
def test_destructive_tools_can_be_ruled_out_whatever_rules_say() -> None:
    permissions = Permissions((rule("*", ALLOW),), auto_approve=True, allow_destructive=False)
    assert [action(permissions, "any", each) for each in (PLAIN, DESTROYS, BOTH)] == [ALLOW, DENY, DENY]


@pytest.mark.requirement("WAIT-4")
def test_auto_approve_answers_questions_but_not_those_that_are_always_asked() -> None:
    rules = (rule("*", ASK), rule("mail", ALWAYS_ASK), rule("drop", DENY))
    permissions = Permissions(rules, auto_approve=True, destructive_action=ASK)
    assert [action(permissions, name) for name in ("look", "mail", "drop")] == [ALLOW, ALWAYS_ASK, DENY]
    assert action(Permissions(auto_approve=True, destructive_action=ASK), "any", DESTROYS) is ALLOW


@pytest.mark.requirement("WAIT-5")
def test_the_strictest_of_a_run_and_those_it_works_for_wins() -> None:
    actions = (ALLOW, ASK, ALWAYS_ASK, DENY)
    for own, above in [(one, other) for one in actions for other in actions]:
        parent = Permissions((rule("*", above),))
        child = Permissions((rule("*", own),), parents=(Permissions(), parent))
        assert action(child, "any") is max(own, above, key=actions.index)
    hands_off = Permissions(allow_destructive=False)
    assert action(Permissions((rule("*", ALLOW),), parents=(hands_off,)), "any", DESTROYS) is DENY
    asks = Permissions(parents=(Permissions((rule("*", ALLOW, "doom_loop"),)),))
    assert asks.loop_action("any") is ALWAYS_ASK


@pytest.mark.requirement("WAIT-6")
def test_added_rules_stand_behind_the_sessions_and_before_the_runs_own() -> None:
    layers = [
        Layer(PolicyLayer.AGENT, "a", Policy(approval=ApprovalPolicy(rules=(rule("*", ASK),)))),
        Layer(PolicyLayer.RUN, "", Policy(approval=ApprovalPolicy(rules=(rule("mail", ALWAYS_ASK),)))),
    ]
    permissions = permissions_of(merge(layers).policy, run_rules=1)
    assert (len(permissions.rules), len(permissions.run_rules)) == (1, 1)
    added = permissions.with_rules((rule("mail", ALLOW), rule("look", ALLOW)))
    assert [action(added, name) for name in ("look", "mail", "write")] == [ALLOW, ALWAYS_ASK, ASK]
    assert permissions.with_rules(()) is permissions


@pytest.mark.requirement("WAIT-5", "WAIT-6", "WAIT-14")
def test_who_answers_answers_for_the_runs_above_too() -> None:
    child = Permissions((rule("*", ASK),), parents=(Permissions((rule("*", ASK),)),))
    assert not child.rules_allow("look", "tool", ("look",))
    added = child.with_rules((rule("look", ALLOW),))
    assert action(added, "look") is ALLOW
    assert added.rules_allow("look", "tool", ("look",))
    assert not added.rules_allow("look", "tool", ("look", "write"))
    assert not Permissions().rules_allow("look", "tool", ("look",)), "no rule has allowed anything"
    assert Permissions((rule("*", ASK),), auto_approve=True).rules_allow("look", "tool", ("look",))


@pytest.mark.requirement("WAIT-25", "WAIT-26")
def test_circles_are_allowed_only_by_a_rule_about_circles() -> None:
    everything = rule("*", ALLOW, "*")
    assert Permissions((everything,), auto_approve=True).loop_action("look") is ALWAYS_ASK
    assert Permissions((everything, rule("*", DENY, "doom_loop"))).loop_action("look") is DENY
    assert Permissions((rule("*", DENY, "*"),)).loop_action("look") is DENY
    named = Permissions((everything,)).with_rules((rule("look", ALLOW, "doom_loop"),))
    assert [named.loop_action(name) for name in ("look", "write")] == [ALLOW, ALWAYS_ASK]


@pytest.mark.requirement("WAIT-2")
def test_a_policy_that_was_not_merged_has_no_permissions() -> None:
    with pytest.raises(ValueError, match="not an effective policy"):
        permissions_of(Policy())


def of_call(
    permissions: Permissions, permission: str, *patterns: str, hints: ToolAnnotations = PLAIN
) -> PermissionAction:
    return permissions.decide_call("run_shell", PermissionRequest(permission, patterns), hints).action


@pytest.mark.requirement("APPROVE-63")
def test_what_a_call_asks_for_is_held_against_its_own_rules_and_else_against_those_of_its_tool() -> None:
    tool, shell = rule("run_shell", ASK), rule("git *", ALLOW, "shell")
    for rules in ((tool, shell), (shell, tool)):
        permissions = Permissions(rules)
        assert of_call(permissions, "shell", "git log") is ALLOW
        assert of_call(permissions, "shell", "ls") is ASK
        assert of_call(permissions, "shell", "git log", "ls") is ASK, "the strictest of all"
        assert of_call(permissions, "shell") is ASK, "nothing in particular: the tool"
    assert of_call(Permissions(), "shell", "ls") is ALLOW
    assert of_call(Permissions(destructive_action=ASK), "shell", "ls", hints=DESTROYS) is ASK
    assert of_call(Permissions((shell,), allow_destructive=False), "shell", "git log", hints=DESTROYS) is DENY
    assert of_call(Permissions((rule("rm *", DENY, "shell"), rule("*", ALLOW))), "shell", "rm x") is DENY


@pytest.mark.requirement("APPROVE-63")
def test_a_lock_on_a_tool_holds_whatever_is_allowed_below_it() -> None:
    for lock in (DENY, ALWAYS_ASK):
        permissions = Permissions((rule("run_shell", lock), rule("*", ALLOW, "shell")), auto_approve=True)
        assert of_call(permissions, "shell", "ls") is lock
        assert not permissions.rules_allow("run_shell", "shell", ("ls",))
    open_one = Permissions((rule("run_shell", ASK), rule("ls", ALLOW, "shell")))
    assert open_one.rules_allow("run_shell", "shell", ("ls",))
    assert not open_one.rules_allow("run_shell", "shell", ("ls", "rm x"))
    child = Permissions((rule("*", ALLOW, "*"),), parents=(Permissions((rule("rm *", DENY, "shell"),)),))
    assert of_call(child, "shell", "rm x") is DENY


@pytest.mark.requirement("APPROVE-64")
def test_what_is_unclear_is_asked_about_unless_it_is_denied_or_allowed_by_name() -> None:
    assert of_call(Permissions(), "shell.unclear", "$x") is ASK
    assert of_call(Permissions(auto_approve=True), "shell.unclear", "$x") is ALLOW
    for allowing in (rule("*", ALLOW), rule("*", ALLOW, "shell"), rule("*", ALLOW, "*"), rule("*", ALLOW, "shell*")):
        assert of_call(Permissions((allowing,)), "shell.unclear", "$x") is ASK
        assert not Permissions((allowing,)).rules_allow("run_shell", "shell.unclear", ("$x",))
    named = Permissions((rule("$*", ALLOW, "shell.unclear"),))
    assert of_call(named, "shell.unclear", "$x") is ALLOW
    assert named.rules_allow("run_shell", "shell.unclear", ("$x",))
    assert of_call(Permissions((rule("rm *", DENY, "shell"),)), "shell.unclear", "rm $x") is DENY
    assert of_call(Permissions((rule("rm *", DENY, "*"),)), "shell.unclear", "rm $x") is DENY
    both = Permissions((rule("rm *", DENY, "shell"), rule("*", ALLOW, "shell.unclear")))
    assert of_call(both, "shell.unclear", "rm $x") is DENY
