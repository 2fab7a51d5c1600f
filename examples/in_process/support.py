"""One turn in this process, without a server: python support.py "Where is order 4711?"."""

import asyncio
import sys

from turnwired import Rewound, Runtime, TurnResult
from turnwired.domain.event import LoggedEvent, TextDelta, ToolCallFinished, ToolCallStarted

ORDERS = {4711: "shipped to Tokyo", 4712: "waiting for the publisher"}
CONFIG = {
    "agents": {
        "support": {
            "instructions": "You help the staff of a bookshop. Look things up; answer in one sentence.",
            "policy": {"loop": {"max_steps": 6}},
        }
    }
}


async def find_order(number: int) -> str:
    """Find an order by its number.

    Args:
        number: The order's number, as printed on the receipt.
    """
    if number not in ORDERS:
        raise LookupError(f"there is no order {number}")
    return ORDERS[number]


def show(told: LoggedEvent | Rewound) -> None:
    """Print the run as it goes."""
    match told:
        case LoggedEvent(event=ToolCallStarted(tool=tool)) if tool is not None:
            print("calls", tool.routed_name)
        case LoggedEvent(event=ToolCallFinished(result=result)):
            print("result", result.status)
        case LoggedEvent(event=TextDelta(text=text)):
            print(text, end="", flush=True)
        case _:
            pass


async def ask(question: str) -> TurnResult:
    """One turn from the question to its settled end."""
    async with Runtime(CONFIG, tools=[find_order]) as runtime:
        return await runtime.run_turn(question, agent="support", on_event=show)


if __name__ == "__main__":
    result = asyncio.run(ask(sys.argv[1]))
    print()
    print(result.outcome.kind, result.usage.output_tokens, "tokens out")
