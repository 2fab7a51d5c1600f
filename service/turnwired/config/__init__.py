"""Configuration: one TOML file and the environment, read into plain data. Knows no adapter: ``app`` wires.

``load_config`` reads; ``Config`` is what was read; ``agents_of``, ``policy_layer_of``, ``ceiling_of`` and
``rate_card_of`` give it in the words of the domain. docs/configuration.md lists every key.
"""

from turnwired.config.address import ListenAddress
from turnwired.config.load import CONFIG_VARIABLE, DEFAULT_FILE, load_config
from turnwired.config.model import (
    AgentConfig,
    Config,
    PriceConfig,
    ProviderConfig,
    ServerConfig,
    StoreConfig,
    TelemetryConfig,
    ToolsConfig,
)
from turnwired.config.translate import agents_of, ceiling_of, default_model_of, policy_layer_of, rate_card_of

__all__ = [
    "CONFIG_VARIABLE",
    "DEFAULT_FILE",
    "AgentConfig",
    "Config",
    "ListenAddress",
    "PriceConfig",
    "ProviderConfig",
    "ServerConfig",
    "StoreConfig",
    "TelemetryConfig",
    "ToolsConfig",
    "agents_of",
    "ceiling_of",
    "default_model_of",
    "load_config",
    "policy_layer_of",
    "rate_card_of",
]
