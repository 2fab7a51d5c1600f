"""What a deployment may say of any source, whatever its kind, and the decorators that this stands for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, field_validator

from turnwired.domain.permission import PERMISSIONS, is_permission
from turnwired.tools.decorators import capped, permitted, validated
from turnwired.tools.port import Toolset


class SourceOptions(BaseModel):
    """Options of a section such as ``[mcp_servers.x]`` beside those that its adapter knows. Sizes are bytes.

    ``priority``: of two sources that claim one name the higher has it. ``max_result_bytes`` holds beside the policy's.
    ``permission``: what its tools ask for, by their native names, in place of their routed names.
    ``validate``: calls and structured results are held to the tools' schemas, whatever the policy says.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    priority: Annotated[int, Field(ge=-1000, le=1000)] = 0
    max_result_bytes: Annotated[int, Field(ge=1)] | None = None
    permission: str | None = None
    check: Annotated[bool, Field(alias="validate")] = False

    @field_validator("permission")
    @classmethod
    def _is_own(cls, value: str | None) -> str | None:
        if value is not None and (value in PERMISSIONS or not is_permission(value)):
            raise ValueError("takes a name with a dot of your own, such as acme.deploy")
        return value

    def decorated(self, toolset: Toolset) -> Toolset:
        """The toolset with what these options ask for around it."""
        if self.permission is not None:
            toolset = permitted(toolset, self.permission)
        if self.check:
            toolset = validated(toolset)
        return toolset if self.max_result_bytes is None else capped(toolset, self.max_result_bytes)


OPTION_KEYS = frozenset(field.alias or name for name, field in SourceOptions.model_fields.items())


def split_options(data: Mapping[str, object]) -> tuple[dict[str, object], dict[str, object]]:
    """The keys of a section that are options of any source, and those that are its adapter's."""
    common = {key: value for key, value in data.items() if key in OPTION_KEYS}
    return common, {key: value for key, value in data.items() if key not in OPTION_KEYS}
