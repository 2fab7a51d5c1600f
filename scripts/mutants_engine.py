"""Faults that scripts/mutants.py seeds in the engine: what, file, words and what becomes of them. Data alone."""

from __future__ import annotations

ENGINE_MUTANTS: tuple[tuple[str, str, str, str], ...] = (
    ("effects begin before their events are durable", "execution", "await self.log.flushed(barrier)", "pass"),
    ("milestones are shown before they are durable", "log", "self._blockers.append(sequence)", "pass"),
    ("readers go back too little", "follow", "else begun - 1", "else begun"),
    ("readers are not told to go back", "follow", "Place(epoch, keep, rewind=keep)", "Place(epoch, keep)"),
    ("readers behind the window read on", "follow", "if place.sequence + 1 < log.oldest():", "if False:"),
    (
        "readers are not woken",
        "log",
        "            self._drained.clear()\n        self.wake()",
        "            self._drained.clear()",
    ),
    ("what is given up is not cancelled", "execution", "            work.cancel()\n", "            pass\n"),
    (
        "what is given up is told twice",
        "execution",
        "self._take_when_unwound, step, work)\n                    return",
        "self._take_when_unwound, step, work)",
    ),
    ("late ends are lost", "execution", "on_late=lambda: self.feed(ToolResultLate(call_id))", "on_late=lambda: None"),
    ("the end is told before it is durable", "execution", " and self.log.finished", ""),
    ("traces show what is not durable", "execution", " if item.sequence <= self.log.visible", ""),
    ("people: the same words are taken again", "steering", "if ids[0] not in appended:", "if True:"),
    ("the deadline outlives the run", "run_clock", "            self._timer.cancel()\n", "            pass\n"),
    ("children outlive their parent", "service", "self.cancel_if_live(child, PARENT_ENDED)", "pass"),
    ("a run of doubt has no owner", "service", "isinstance(error, StoreUnavailable) and error.uncertain", "False"),
    ("a repeated turn runs again", "service", "        if not created.existing:\n", "        if True:\n"),
    ("a session's turn is told twice", "prepare", "if stored.run_id == run_id:", "if False:"),
    (
        "a run is left unfinished at the start",
        "recovery",
        "await store.take_over_unfinished():",
        "(await store.take_over_unfinished())[1:]:",
    ),
)
