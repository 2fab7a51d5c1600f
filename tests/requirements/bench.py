"""What the benchmark must do."""

REQUIREMENTS = {
    "BENCH-1": "The scripted provider does what the model's name says, whatever the history holds.",
    "BENCH-2": "The scripted provider refuses a turn that went wrong, so that no broken turn is measured.",
    "BENCH-3": "Every measure takes a sample of every target, and every turn of it is whole.",
    "BENCH-4": "A ratio compares samples of one repetition, and above 1 is worse than the floor.",
    "BENCH-5": "A run is bounded in time and writes every sample as JSON.",
    "BENCH-7": "Each wire is measured beside bare httpx2 and orjson in one run, with answers that are whole.",
    "BENCH-6": "A measure that fails is reported and does not end the run.",
}
