"""Behaviours of policy, bounds, prices and configuration, each with an id that its tests name."""

from __future__ import annotations

REQUIREMENTS: dict[str, str] = {
    "POLICY-1": "The table of leaves covers every leaf of the domain's and the contract's Policy, in their order.",
    "POLICY-2": "No combination of layers turns a loop bound off.",
    "POLICY-3": "Every leaf of the effective policy is set and has exactly one provenance that names its layer.",
    "POLICY-4": "The value of a higher layer replaces the lower one as a whole; rules append; map entries replace.",
    "POLICY-5": "Merging is deterministic, and merging two layers first gives the same policy.",
    "POLICY-6": "The safety ceiling is never exceeded, and a value it cut says what was asked for.",
    "POLICY-7": "RUNTIME_DEFAULT resolves to the default and PROVIDER_NATIVE to the provider, naming who chose it.",
    "POLICY-8": "A cap takes only the modes that it allows and values in its range; a violation names its path.",
    "POLICY-9": "A leaf that this version does not enforce is refused in every layer with OPTION_NOT_SUPPORTED.",
    "POLICY-10": "Every enforced leaf reaches the bounds of the run.",
    "POLICY-11": "A value written as text reads back as the same value.",
    "POLICY-12": "docs/policy.md lists every leaf as the table has it.",
    "PRICE-1": "Usage is priced by its rate card, cached tokens at their own rate.",
    "PRICE-2": "An unknown price is None; usage the provider did not report makes the cost a lower bound.",
    "PRICE-3": "Known prices come from genai-prices where the configuration names none, and only when asked for.",
    "PRICE-4": "A model can be priced by the time of its calls, with or without tokens.",
    "CONFIG-1": "Without a file there is a default agent and a provider chosen from the environment.",
    "CONFIG-2": "An unknown key, a wrong value or an unreadable file is one clear line that names file and key.",
    "CONFIG-3": "TURNWIRE_* variables override the file.",
    "CONFIG-4": "Keys come from the environment or a file; a literal key in the file is refused.",
    "CONFIG-5": "Listening beyond loopback is refused unless it is asked for by name.",
    "CONFIG-6": "Policy and ceiling sections become layers; what they break is a line with its path.",
    "CONFIG-7": "Every key has an example in docs/configuration.md, and every example there is taken.",
}
