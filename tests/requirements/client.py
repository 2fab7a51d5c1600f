"""What the Python client promises."""

from __future__ import annotations

REQUIREMENTS: dict[str, str] = {
    "CLIENT-1": "Following a turn yields its events in order and stops after RunFinished.",
    "CLIENT-2": "A cut stream is taken up again where it stopped: no event is missed or seen twice.",
    "CLIENT-3": "Resuming is bounded; attempts that bring something new do not count against it.",
    "CLIENT-4": "An error that the server gave is raised as it is, never retried.",
    "CLIENT-5": "A rewind is told to the caller and moves the cursor back.",
    "CLIENT-6": "Leaving a stream early cancels the call.",
    "CLIENT-7": "A turn can be tried again safely: it always has a request id, the same in every attempt.",
    "CLIENT-8": "A view folds updates to text, message and outcome, also across a rewind.",
    "CLIENT-13": "A run whose functions are at work ends with its caller, unless it was to go on without one.",
    "CLIENT-14": "What an approval's callback raises ends the call; what a function raises is told to the model.",
    "CLIENT-15": "StartTurn has a request id, and is tried again while the server cannot be reached.",
    "CLIENT-9": "The blocking and the asynchronous client behave alike.",
}
