"""Prices: configured rates, the public list, and what has no price."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnwired.domain.usage import Cost, Usage
from turnwired.policy import ratecard
from turnwired.policy.ratecard import PUBLIC_LIST, ListedProvider, Rate, RateCard

AT = datetime(2026, 11, 30, tzinfo=UTC)
RATE = Rate(Decimal("2.5"), Decimal(10), cache_read_per_million=Decimal("0.25"), cache_write_per_million=Decimal(3))
CARD = RateCard({("openai", "gpt-x"): RATE, ("local", "m"): Rate(Decimal(0), Decimal(0))}, name="turnwire.toml")


def price(card: RateCard, provider: str, model: str, usage: Usage, milliseconds: int = 0) -> Cost | None:
    return card.price_of(provider, model, AT)(usage, milliseconds * 1_000_000)


@pytest.mark.requirement("PRICE-1")
@pytest.mark.parametrize(
    ("usage", "nanos"),
    [
        (Usage(1_000_000, 0), 2_500_000_000),
        (Usage(0, 1_000_000), 10_000_000_000),
        (Usage(1, 1), 12_500),
        (Usage(1000, 10, cache_read_tokens=400), 600 * 2_500 + 400 * 250 + 10 * 10_000),
        (Usage(1000, 10, cache_write_tokens=400), 600 * 2_500 + 400 * 3_000 + 10 * 10_000),
        (Usage(10, 0, cache_read_tokens=50), 10 * 250),
        (Usage(10, 0, cache_read_tokens=8, cache_write_tokens=8), 8 * 250 + 2 * 3_000),
        (Usage(0, 0), 0),
    ],
)
def test_usage_is_priced_by_its_rates(usage: Usage, nanos: int) -> None:
    assert price(CARD, "openai", "gpt-x", usage) == Cost("USD", nanos, "turnwire.toml")


@pytest.mark.requirement("PRICE-1")
def test_a_cache_rate_that_is_not_set_is_the_input_rate() -> None:
    card = RateCard({("p", "m"): Rate(Decimal(1), Decimal(0), currency_code="EUR")})
    usage = Usage(100, 0, cache_read_tokens=60, cache_write_tokens=20)
    assert price(card, "p", "m", usage) == Cost("EUR", 100_000, "configured")


@pytest.mark.requirement("PRICE-1")
@given(
    st.integers(0, 10**9), st.integers(0, 10**9), st.none() | st.integers(-5, 10**9), st.none() | st.integers(-5, 10**9)
)
def test_a_cost_is_never_negative_and_grows_with_output(
    tokens_in: int, tokens_out: int, read: int | None, write: int | None
) -> None:
    def nanos(output: int) -> int:
        cost = RATE.price(Usage(tokens_in, output, cache_read_tokens=read, cache_write_tokens=write), 0, "c")
        assert cost is not None
        return cost.amount_nanos

    assert 0 <= nanos(tokens_out) == nanos(tokens_out + 1) - 10_000


@pytest.mark.requirement("PRICE-1")
def test_reasoning_has_its_own_rate_where_it_is_set_and_is_output_where_not() -> None:
    usage = Usage(0, 100, reasoning_tokens=60)
    own = RateCard({("p", "m"): Rate(Decimal(1), Decimal(4), reasoning_per_million=Decimal(1))})
    assert price(own, "p", "m", usage) == Cost("USD", 40 * 4_000 + 60 * 1_000, "configured")
    plain = RateCard({("p", "m"): Rate(Decimal(1), Decimal(4))})
    assert price(plain, "p", "m", usage) == Cost("USD", 100 * 4_000, "configured")
    listed = RateCard(listed={"perplexity": ListedProvider("perplexity")})
    # 2 per million in, 8 out, 3 for reasoning: the public list, read on the day of AT.
    assert price(listed, "perplexity", "sonar-deep-research", Usage(1000, 1000, 400)) == Cost(
        "USD", 8_000_000, PUBLIC_LIST
    )


@pytest.mark.requirement("PRICE-4")
def test_a_model_on_own_hardware_is_priced_by_the_time_of_the_call() -> None:
    timed = RateCard({("vllm", "m"): Rate(gpu_ms=Decimal("0.0000007"), currency_code="EUR")})
    assert price(timed, "vllm", "m", Usage(10, 10), 2_000) == Cost("EUR", 1_400_000, "configured")
    assert price(timed, "vllm", "m", Usage(), 1) == Cost("EUR", 700, "configured")
    both = RateCard({("vllm", "m"): Rate(Decimal(1), Decimal(1), gpu_ms=Decimal("0.001"))})
    assert price(both, "vllm", "m", Usage(5, 5), 1) == Cost("USD", 10 * 1_000 + 1_000_000, "configured")
    assert price(both, "vllm", "m", Usage(5), 1) == Cost("USD", 5 * 1_000 + 1_000_000, "configured", complete=False)


@pytest.mark.requirement("PRICE-2")
def test_an_unknown_price_is_none_and_a_rate_of_zero_is_a_price() -> None:
    assert price(CARD, "local", "other", Usage(1, 1)) is None
    assert price(CARD, "local", "m", Usage(1, 1)) == Cost("USD", 0, "turnwire.toml")
    assert [CARD.has_price("local", model) for model in ("other", "m")] == [False, True]


@pytest.mark.requirement("PRICE-2")
def test_usage_that_was_not_reported_makes_a_lower_bound_or_no_cost() -> None:
    assert price(CARD, "openai", "gpt-x", Usage(output_tokens=1)) == Cost(
        "USD", 10_000, "turnwire.toml", complete=False
    )
    assert price(CARD, "openai", "gpt-x", Usage(input_tokens=2)) == Cost("USD", 5_000, "turnwire.toml", complete=False)
    assert price(CARD, "openai", "gpt-x", Usage()) is None


LISTED = RateCard(
    listed={
        "openai": ListedProvider("openai"),
        "router": ListedProvider("openai", "https://openrouter.ai/api/v1"),
        "mine": ListedProvider("openai", "http://127.0.0.1:8080/v1"),
        "local": ListedProvider("local"),
    }
)


@pytest.mark.requirement("PRICE-3")
def test_a_listed_model_has_its_list_price() -> None:
    usage = Usage(1000, 100, cache_read_tokens=200)
    cost = price(LISTED, "openai", "gpt-5-mini", usage)
    assert cost is not None
    assert (cost.currency_code, cost.rate_card, cost.complete) == ("USD", PUBLIC_LIST, True)
    without_cache = price(LISTED, "openai", "gpt-5-mini", Usage(1000, 100))
    assert without_cache is not None
    assert 0 < cost.amount_nanos < without_cache.amount_nanos
    assert price(LISTED, "router", "openai/gpt-5-mini", usage) is not None


@pytest.mark.requirement("PRICE-2", "PRICE-3")
@pytest.mark.parametrize(
    ("provider", "model"),
    [("openai", "no-such-model"), ("mine", "gpt-5-mini"), ("local", "gpt-5-mini"), ("unheard-of", "gpt-5-mini")],
)
def test_what_the_list_does_not_know_has_no_price(provider: str, model: str) -> None:
    assert price(LISTED, provider, model, Usage(1, 1)) is None
    assert not LISTED.has_price(provider, model)


@pytest.mark.requirement("PRICE-3")
def test_counts_that_contradict_each_other_are_priced_without_an_error() -> None:
    assert price(LISTED, "openai", "gpt-5-mini", Usage(10, 0, cache_read_tokens=20, cache_write_tokens=20)) is not None
    partial = price(LISTED, "openai", "gpt-5-mini", Usage(input_tokens=10))
    assert partial is not None
    assert not partial.complete
    assert price(LISTED, "openai", "gpt-5-mini", Usage()) is None


@pytest.mark.requirement("PRICE-3")
def test_the_list_is_not_loaded_before_a_price_is_asked_for() -> None:
    code = "import sys, turnwired.policy.ratecard; sys.exit('genai_prices' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=30).returncode == 0


@pytest.mark.requirement("PRICE-3")
def test_a_card_is_warm_for_the_models_it_was_warmed_for() -> None:
    card = RateCard(listed={"openai": ListedProvider("openai")})
    card.warm([("openai", "gpt-5-mini"), ("openai", "no-such-model"), ("unheard-of", "m")])
    assert {key: found is not None for key, found in card._found.items()} == {
        ("openai", "gpt-5-mini"): True,
        ("openai", "no-such-model"): False,
    }


@pytest.mark.requirement("PRICE-3")
def test_what_is_remembered_of_the_list_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ratecard, "_MAX_FOUND", 2)
    card = RateCard(listed={"openai": ListedProvider("openai")})
    card.warm(("openai", f"no-such-model-{number}") for number in range(5))
    assert len(card._found) == 2
    assert card.has_price("openai", "gpt-5-mini")
