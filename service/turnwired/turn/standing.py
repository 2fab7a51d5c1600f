"""Where a run stands while its tools are called: the state of a machine as a value, to be taken over by another.

It knows the parts of the machine, and nothing of the log that it is made of.
"""

from __future__ import annotations

from dataclasses import dataclass

from turnwired.domain.model import IterationKind
from turnwired.turn.admission import Admission
from turnwired.turn.attachments import Attachments
from turnwired.turn.batch import ToolBatch
from turnwired.turn.completion import Completion
from turnwired.turn.history import Transcript
from turnwired.turn.ids import Ids
from turnwired.turn.ledger import Ledger
from turnwired.turn.waiting import Waiting


@dataclass(slots=True)
class Standing:
    """The parts, as ``TurnMachine`` has them; ``calls_completed`` are those of the batches before this one."""

    iteration: int
    kind: IterationKind
    ids: Ids
    transcript: Transcript
    ledger: Ledger
    admission: Admission
    completion: Completion
    waiting: Waiting
    batch: ToolBatch
    attachments: Attachments
    calls_settled: int
    calls_completed: int
    limit_reported: bool
    usage_missed: bool
