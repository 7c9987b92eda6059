"""The two kinds of failure of a verification: the submission's, and ours."""

from __future__ import annotations

from typing import TYPE_CHECKING

from verifier.verdict import FailureCode

if TYPE_CHECKING:
    from verifier.session import CallRecord


def clean_text(text: str) -> str:
    """Return hostile text without control characters and lone surrogates, so that it can be stored and shown."""
    return "".join(character if character.isprintable() or character in "\n\t" else "\ufffd" for character in text)


class CandidateFault(Exception):
    """The submission failed; `code` says how, the texts come from its process and are hostile.

    `record` is what the device saw during the call that failed, when there was one.
    """

    def __init__(self, code: FailureCode, message: str, traceback: str = "") -> None:
        super().__init__(message)
        self.code, self.message, self.traceback = code, clean_text(message), clean_text(traceback)
        self.record: CallRecord | None = None


class InfrastructureFault(Exception):
    """Something of ours failed; never the submitter's fault."""

    def __init__(self, message: str, code: FailureCode = FailureCode.INFRA_EVIDENCE_LOST) -> None:
        super().__init__(message)
        self.code = code
