"""Requests that the embedded model is shown as already solved, without which a model of its size does not call tools.

Measured with SmolLM2-135M-Instruct (Q4_1, temperature 0), mcp-server-time's two tools offered. Told about the tools in
words, it called the right one with the right time zone in 2 of 14 questions; with examples in the system message, in 8.
With these as turns of the conversation it chose right between tool and answer in 25 of 25 requests, and of ten ways to
ask for the time in one city, the zone was right in 10 (Tokyo), 8 (London), 10 (Berlin), 10 (New York). The order
counts: answers first, the whole cycle of call, result and answer last.
"""

from __future__ import annotations

from typing import Final

from turnwired.providers.json_tools import ToolExample

_TIME = "get_current_time"

EXAMPLES: Final = (
    ToolExample("Say hi.", answer="Hi! How can I help you?"),
    ToolExample("What is the capital of Spain?", answer="The capital of Spain is Madrid."),
    ToolExample("Write a sentence about dogs.", answer="Dogs are loyal friends who love to play."),
    ToolExample("Time in Seoul?", _TIME, {"timezone": "Asia/Seoul"}),
    ToolExample("Tell me the current time in Chicago.", _TIME, {"timezone": "America/Chicago"}),
    ToolExample("Current time in Nairobi please", _TIME, {"timezone": "Africa/Nairobi"}),
    ToolExample("What is the local time in Rome?", _TIME, {"timezone": "Europe/Rome"}),
    ToolExample(
        "Tell me the current time in New York.",
        _TIME,
        {"timezone": "America/New_York"},
        result='{"timezone": "America/New_York", "datetime": "2025-01-08T06:05:41-05:00", '
        '"day_of_week": "Wednesday", "is_dst": false}',
        answer="It is 06:05 on Wednesday in New York.",
    ),
)
