"""What the examination of a task for admission reports."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class Finding(BaseModel):
    """One test of admission on one distribution."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    test: str
    distribution: str
    kind: Literal["must fail", "must pass", "must fail somewhere"]
    budget_ratio: float = Field(description="largest error over the error allowed")
    ok: bool


class AdmissionReport(BaseModel):
    """The answer of `kq task admit`."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True, serialize_by_alias=True)

    schema_id: Literal["kernelquest.admission/1"] = Field("kernelquest.admission/1", alias="schema")
    task: str
    environment: str
    findings: list[Finding]
    unexposed: list[str] = Field(description="mutants of precision that no distribution exposes")
    insensitive: list[str] = Field(description="inputs and parameters that no distribution shows to matter")
    wrong_fixtures: list[str] = Field(
        [], description="fixtures of the task that got another verdict than they must get"
    )

    @property
    def admitted(self) -> bool:
        """Whether nothing stands in the way."""
        return all(finding.ok for finding in self.findings) and not (
            self.unexposed or self.insensitive or self.wrong_fixtures
        )
