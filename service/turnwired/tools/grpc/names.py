"""What methods are called as tools, and what their names and options say of them. Pure; knows descriptors, no gRPC.

Verbs follow Google's API Improvement Proposals 131 to 136: GetProduct is ``get_product`` and reads only. A method's own
``idempotency_level`` says more than its name.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Final

from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.descriptor_pb2 import MethodOptions

from turnwired.domain.tool import ToolAnnotations

_VERB: Final = re.compile(r"^(Get|List|Search|Create|Update|Delete)(?=[A-Z])")
_WORDS: Final = re.compile(r"([A-Z]+)([A-Z][a-z])|([a-z0-9])([A-Z])")

_READS: Final = ToolAnnotations(read_only=True, destructive=False, idempotent=True)
_OF_VERB: Final = {
    "Get": _READS,
    "List": _READS,
    "Search": _READS,
    "Create": ToolAnnotations(read_only=False, destructive=False),
    "Update": ToolAnnotations(read_only=False),
    "Delete": ToolAnnotations(read_only=False, destructive=True),
}


def snake_case(name: str) -> str:
    """``GetHTTPRoute`` as ``get_http_route``."""
    spaced = _WORDS.sub(lambda found: "_".join(part for part in found.groups() if part), name)
    return re.sub(r"_+", "_", spaced).lower()


def annotations_of(method: MethodDescriptor) -> ToolAnnotations:
    """From the option ``idempotency_level`` where it is set, else from the verb; nothing is guessed of other names."""
    verb = _VERB.match(method.name)
    hints = _OF_VERB[verb[1]] if verb else ToolAnnotations()
    match method.GetOptions().idempotency_level:
        case MethodOptions.NO_SIDE_EFFECTS:
            return _READS
        case MethodOptions.IDEMPOTENT:
            return ToolAnnotations(hints.read_only, hints.destructive, idempotent=True)
        case _:
            return hints


def tool_names(methods: Sequence[MethodDescriptor]) -> list[str]:
    """A name for each, in order. Where several would have one name, each gets its service's in front, then its package.

    What is then still the same differs in nothing but case: the caller keeps the first.
    """
    names = [snake_case(method.name) for method in methods]
    for longer in (_with_service, _with_package):
        taken = Counter(names)
        names = [longer(method) if taken[name] > 1 else name for method, name in zip(methods, names, strict=True)]
    return names


def _with_service(method: MethodDescriptor) -> str:
    return f"{snake_case(method.containing_service.name)}_{snake_case(method.name)}"


def _with_package(method: MethodDescriptor) -> str:
    return "_".join(snake_case(part) for part in (*method.containing_service.full_name.split("."), method.name))
