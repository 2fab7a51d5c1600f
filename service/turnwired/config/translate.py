"""The configuration in the words of the domain: agents, layers of policy, and the rate card. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal

from turnwired.config.model import Config, PriceConfig
from turnwired.domain.model import GenerationOptions, ModelSelection
from turnwired.domain.policy import Policy, PolicyLayer
from turnwired.domain.run import Agent
from turnwired.domain.tool import ToolSelection
from turnwired.policy.merge import Layer
from turnwired.policy.ratecard import ListedProvider, Rate, RateCard


def agents_of(config: Config) -> dict[str, Agent]:
    """The configured agents by id, each with its model chosen, at revision 1."""
    default = config.default_model()
    return {
        agent_id: Agent(
            agent_id=agent_id,
            instructions=agent.instructions,
            model=_with_options(_selection(agent.model or default), agent.options.options),
            policy=agent.policy,
            tools=ToolSelection(agent.tools.include, agent.tools.exclude),
            description=agent.description,
            agents=agent.agents,
            run_as=agent.run_as or "",
        )
        for agent_id, agent in config.agents.items()
    }


def default_model_of(config: Config) -> ModelSelection:
    """The model of agents and requests that name none; where no provider names its models, the first agent's."""
    named = (agent.model for agent in config.agents.values() if agent.model is not None)
    selection = _selection(config.default_model() or next(named, None))
    assert selection is not None, "validation asks each agent for a model when there is no default"
    return selection


def policy_layer_of(config: Config) -> Layer:
    """The deployment's layer of policy; its ref is the file."""
    return Layer(PolicyLayer.DEPLOYMENT, config.source, config.policy)


def ceiling_of(config: Config) -> Layer | None:
    """The deployment's safety ceiling, or None when it sets none and the built-in one holds alone."""
    if config.ceiling == Policy():
        return None
    return Layer(PolicyLayer.SAFETY_CEILING, f"{config.source} [ceiling]", config.ceiling)


def rate_card_of(config: Config, listed: Mapping[str, ListedProvider]) -> RateCard:
    """Configured prices of all providers. ``listed``: how the public list knows them, where it may price them."""
    rates = {
        (name, model): _rate(price)
        for name, provider in config.providers.items()
        for model, price in provider.prices.items()
    }
    allowed = {name: known for name, known in listed.items() if config.providers[name].list_prices}
    return RateCard(rates, allowed, config.source)


def _selection(text: str | None) -> ModelSelection | None:
    if text is None:
        return None
    provider, _, model = text.partition("/")
    return ModelSelection(provider, model)


def _with_options(selection: ModelSelection | None, options: GenerationOptions) -> ModelSelection | None:
    return None if selection is None else replace(selection, options=options)


def _rate(price: PriceConfig) -> Rate:
    return Rate(
        price.input_per_million or Decimal(0),
        price.output_per_million or Decimal(0),
        price.cache_read_per_million,
        price.cache_write_per_million,
        price.reasoning_per_million,
        price.gpu_ms,
        price.currency,
    )
