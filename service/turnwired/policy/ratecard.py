"""What usage costs: prices by (provider, model), the configured ones first, then the public list of ``genai-prices``.

An unknown price is None: said, never guessed. Own hardware, the embedded local model too, has no price unless a rate
is configured for it; a rate of 0 is a price. Loading the public list takes 0.5 to 1 s, so ``warm`` belongs in a thread
at the start; the prices are pure functions of usage that cost 5 us (configured) or 100 us (public list), once per
iteration. Nothing here opens a connection.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import ROUND_HALF_EVEN, Decimal

from turnwired.domain.usage import Cost, Usage, bounded_cost

Price = Callable[[Usage, int], Cost | None]
"""Usage and duration of one model call, in nanoseconds, to its cost; None: no price, or nothing that it could price."""

DatedPrice = Callable[[Usage, datetime], Cost | None]
"""The same for a moment: list prices change with the date, and a few with the time of day."""

PUBLIC_LIST = "genai-prices"
_MAX_FOUND = 1024
_NANOS = Decimal(10**9)
_NS_TO_NANOS = Decimal(1_000)  # money per millisecond to billionths per nanosecond: 10^9 / 10^6
_PER_MILLION_TO_NANOS = Decimal(1_000)  # 1 unit of money per million tokens is 1,000 nanos per token


@dataclass(frozen=True, slots=True)
class Rate:
    """Money per million tokens, as configured, and per millisecond of the call for models on own hardware.

    A cache rate that is None is the input rate, a reasoning rate that is None is the output rate. ``gpu_ms``: money for
    each millisecond from the request to the end of the answer, on top of the tokens.
    """

    input_per_million: Decimal = Decimal(0)
    output_per_million: Decimal = Decimal(0)
    cache_read_per_million: Decimal | None = None
    cache_write_per_million: Decimal | None = None
    reasoning_per_million: Decimal | None = None
    gpu_ms: Decimal | None = None
    currency_code: str = "USD"

    def price(self, usage: Usage, duration_ns: int, rate_card: str) -> Cost | None:
        """The cost, a lower bound (``complete`` False) where a count is missing that has a price.

        None where nothing can be priced: no count, and time has no price.
        """
        if self.gpu_ms is None and usage.input_tokens is None and usage.output_tokens is None:
            return None
        time = Decimal(0) if self.gpu_ms is None else self.gpu_ms * duration_ns * _NS_TO_NANOS
        nanos = int((self._tokens(usage) * _PER_MILLION_TO_NANOS + time).to_integral_value(ROUND_HALF_EVEN))
        free = not (self.input_per_million or self.output_per_million)
        complete = _is_complete(usage) or (free and self.gpu_ms is not None)
        return bounded_cost(self.currency_code, nanos, rate_card, complete=complete)

    def _tokens(self, usage: Usage) -> Decimal:
        uncached, cache_read, cache_write = _split_input(usage)
        read_rate, write_rate = self.cache_read_per_million, self.cache_write_per_million
        output = max(usage.output_tokens or 0, 0)
        reasoning = min(max(usage.reasoning_tokens or 0, 0), output)
        rate = self.reasoning_per_million
        return (
            uncached * self.input_per_million
            + cache_read * (self.input_per_million if read_rate is None else read_rate)
            + cache_write * (self.input_per_million if write_rate is None else write_rate)
            + (output - reasoning) * self.output_per_million
            + reasoning * (self.output_per_million if rate is None else rate)
        )


@dataclass(frozen=True, slots=True)
class ListedProvider:
    """How the public list knows a provider: by the address that is called if it is set, else by the list's own id."""

    price_list: str
    base_url: str | None = None


@dataclass(slots=True)
class RateCard:
    """Prices of a deployment. ``name`` is what a cost says of configured rates, such as the configuration's file."""

    rates: Mapping[tuple[str, str], Rate] = field(default_factory=dict[tuple[str, str], Rate])
    listed: Mapping[str, ListedProvider] = field(default_factory=dict[str, ListedProvider])
    name: str = "configured"
    _found: dict[tuple[str, str], DatedPrice | None] = field(default_factory=dict[tuple[str, str], DatedPrice | None])

    def warm(self, models: Iterable[tuple[str, str]]) -> None:
        """Find the prices of these (provider, model) pairs beforehand. Takes up to a second: call it in a thread."""
        for provider, model in models:
            self._dated(provider, model)

    def has_price(self, provider: str, model: str) -> bool:
        """Whether usage of this model can be priced at all: what a cost budget needs to know before the run."""
        return (provider, model) in self.rates or self._dated(provider, model) is not None

    def price_of(self, provider: str, model: str, at: datetime) -> Price:
        """The price of one model for usage at a moment: pure, and None for all usage when the model has no price.

        Blocks nobody; a model that was not warmed is looked up when its first usage is priced.
        """
        rate = self.rates.get((provider, model))
        if rate is not None:
            name = self.name
            return lambda usage, duration_ns: rate.price(usage, duration_ns, name)

        def price(usage: Usage, duration_ns: int) -> Cost | None:  # noqa: ARG001 - list prices are for tokens
            dated = self._dated(provider, model)
            return None if dated is None else dated(usage, at)

        return price

    def _dated(self, provider: str, model: str) -> DatedPrice | None:
        """The listed price of a model, found once. Two threads that find it at once find the same."""
        listed = self.listed.get(provider)
        key = (provider, model)
        if listed is None or key in self.rates:
            return None
        if key in self._found:
            return self._found[key]
        found = _listed_price(listed, model)
        if len(self._found) < _MAX_FOUND:  # callers name models as they like
            self._found[key] = found
        return found


def _split_input(usage: Usage) -> tuple[int, int, int]:
    """Input tokens at the plain, cache-read and cache-write rate. Parts that exceed the whole are cut to it."""
    total = max(usage.input_tokens or 0, 0)
    cache_read = min(max(usage.cache_read_tokens or 0, 0), total)
    cache_write = min(max(usage.cache_write_tokens or 0, 0), total - cache_read)
    return total - cache_read - cache_write, cache_read, cache_write


def _is_complete(usage: Usage) -> bool:
    return usage.input_tokens is not None and usage.output_tokens is not None


def _listed_price(listed: ListedProvider, model: str) -> DatedPrice | None:
    """The price from the public list, or None when it does not know the address, the provider or the model."""
    import genai_prices

    if listed.base_url is None and not listed.price_list:
        return None  # the list would guess from the model's name alone

    def calculate(usage: Usage, at: datetime) -> Decimal:
        _, cache_read, cache_write = _split_input(usage)
        counts = genai_prices.Usage(
            input_tokens=usage.input_tokens or 0,
            output_tokens=usage.output_tokens or 0,
            cache_read_tokens=cache_read,
            cache_write_tokens=cache_write,
            output_reasoning_tokens=min(max(usage.reasoning_tokens or 0, 0), usage.output_tokens or 0),
        )
        if listed.base_url is not None:
            url = listed.base_url
            found = genai_prices.calc_price(counts, model, provider_api_url=url, genai_request_timestamp=at)
        else:
            name = listed.price_list
            found = genai_prices.calc_price(counts, model, provider_id=name, genai_request_timestamp=at)
        return found.total_price

    def price(usage: Usage, at: datetime) -> Cost | None:
        if usage.input_tokens is None and usage.output_tokens is None:
            return None
        nanos = int((calculate(usage, at) * _NANOS).to_integral_value(ROUND_HALF_EVEN))
        return bounded_cost("USD", nanos, PUBLIC_LIST, complete=_is_complete(usage))

    try:
        calculate(Usage(0, 0), datetime.now().astimezone())
    except LookupError:
        return None
    return price
