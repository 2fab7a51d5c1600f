"""Sections of the configuration that become layers of policy, a ceiling and a rate card."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest
from config.kit import load, refusal

from turnwired.config import (
    agents_of,
    ceiling_of,
    load_config,
    policy_layer_of,
    rate_card_of,
)
from turnwired.domain.policy import LimitMode, PolicyLayer
from turnwired.domain.tool import ToolSelection
from turnwired.policy.merge import merge
from turnwired.policy.ratecard import ListedProvider, Rate


@pytest.mark.requirement("CONFIG-6")
def test_policy_sections_become_layers(tmp_path: Path) -> None:
    config = load(
        tmp_path,
        """
        [policy]
        loop.max_steps = 40
        timeout.run = "500ms"
        [ceiling.loop]
        max_steps = 20
        [agents.default]
        instructions = "Be brief."
        policy.output.max_output_tokens = "provider_native"
        tools.include = ["a_*"]
        """,
    )
    agent = agents_of(config)["default"]
    assert agent.instructions == ("Be brief.",)
    assert agent.tools == ToolSelection(("a_*",))
    assert agent.policy.output.max_output_tokens is LimitMode.PROVIDER_NATIVE
    effective = merge([policy_layer_of(config)], ceiling_of(config))
    sources = {item.path: item for item in effective.provenance}
    assert effective.policy.loop.max_steps == 20
    assert sources["loop.max_steps"].layer_ref.endswith("turnwire.toml [ceiling]")
    assert sources["timeout.run"].layer is PolicyLayer.DEPLOYMENT
    assert sources["timeout.run"].layer_ref == config.source


@pytest.mark.requirement("CONFIG-6")
def test_without_a_ceiling_section_only_the_built_in_one_holds(tmp_path: Path) -> None:
    assert ceiling_of(load_config(None, {}, tmp_path)) is None


@pytest.mark.requirement("CONFIG-6")
@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("[policy.loop]\nmax_step = 1", "policy.loop.max_step: is not a policy setting"),
        ("[policy.loop]\nmax_steps = 'unbounded'", "policy.loop.max_steps: mode unbounded is not allowed here; "),
        (
            "[policy]\nbudget.max_cost = '1 dollar'",
            "policy.budget.max_cost: ",
        ),
        (
            "[ceiling]\ntimeout.run = 'unbounded'",
            "ceiling.timeout.run: a ceiling is a value, not a mode; leave it unset",
        ),
        (
            "[agents.a.policy.approval]\nrules = [{permission = 'tool', pattern = '', action = 'ask'}]",
            "agents.a.policy.approval.rules[0].pattern: must be 1 to 1024 characters",
        ),
        ("policy = 1", "policy: takes a table such as {loop = {max_steps = 10}}"),
    ],
)
def test_what_policy_breaks_is_a_line_with_its_path(tmp_path: Path, text: str, line: str) -> None:
    assert refusal(tmp_path, text).startswith(f"turnwire.toml: {line}")


@pytest.mark.requirement("PRICE-1", "CONFIG-7")
def test_prices_become_a_rate_card(tmp_path: Path) -> None:
    config = load(
        tmp_path,
        """
        [providers.mine]
        base_url = "http://127.0.0.1:1/v1"
        models = ["m"]
        [providers.mine.prices."org/m.1"]
        input_per_million = 0.1
        output_per_million = 2
        currency = "EUR"
        [providers.mine.prices.timed]
        gpu_ms = 0.0007
        [providers.local]
        list_prices = false
        """,
    )
    card = rate_card_of(config, {"mine": ListedProvider("", "http://127.0.0.1:1/v1"), "local": ListedProvider("")})
    assert card.rates == {
        ("mine", "org/m.1"): Rate(Decimal("0.1"), Decimal(2), currency_code="EUR"),
        ("mine", "timed"): Rate(gpu_ms=Decimal("0.0007")),
    }
    assert card.listed == {"mine": ListedProvider("", "http://127.0.0.1:1/v1")}
    assert card.name == config.source


@pytest.mark.requirement("PRICE-4", "CONFIG-2")
def test_a_price_without_tokens_or_time_names_the_key_that_is_missing(tmp_path: Path) -> None:
    line = refusal(
        tmp_path,
        """
        [providers.mine]
        base_url = "http://127.0.0.1:1/v1"
        models = ["m"]
        prices.m.input_per_million = 1
        """,
    )
    assert "providers.mine.prices.m.output_per_million" in line
    assert "gpu_ms" in line
