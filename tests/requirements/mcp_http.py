"""Behaviours of MCP servers over Streamable HTTP, of their credentials and of their operation, with ids."""

from __future__ import annotations

REQUIREMENTS: dict[str, str] = {
    "MCPH-1": "Servers of both protocol eras are discovered and called over HTTP, answered by JSON or by events.",
    "MCPH-2": "One fault of HTTP fails one request: what is in flight beside it is answered, and the next call works.",
    "MCPH-3": "A status of failure is told as it was: status, Retry-After, whether the call may have been executed.",
    "MCPH-4": "A session that the server has forgotten is renewed once, however many calls find it lost.",
    "MCPH-5": "A call is sent again only if it was not sent, or is trusted to be idempotent.",
    "MCPH-6": "A server that cannot be reached or asks us to wait is left alone for that time; its calls fail at once.",
    "MCPH-7": "A mute server holds up neither other calls nor the closing, cancelled calls free their connections.",
    "MCPH-8": "An answer longer than max_message_bytes fails alone, as JSON and as events.",
    "MCPH-9": "Lists in pages are read whole; repeated cursors, malformed pages and entries are contained.",
    "MCPH-10": "A list is read again when the server says so or its time has passed; a storm is one change.",
    "MCPH-11": "Closing ends the session and leaves no socket.",
    "MCPH-12": "Redirects to another origin are not followed; an endpoint is shown without its secrets.",
    "MCPH-13": "A lazy server is connected when first needed; runs wait briefly for servers that never answered.",
    "MCPH-14": "Headers come from variables and files, read anew; no secret is in configuration, errors or logs.",
    "MCPH-15": "OAuth: client credentials by secret or key, and an enterprise's assertion; requests do not queue.",
    "MCPH-16": "Each caller has its own credentials and its own sessions where the configuration says so.",
    "MCPH-17": "Resources and prompts are tools where they are enabled.",
    "MCPH-18": "An idle server of the 2025 era is asked for a sign of life, and replaced without one.",
    "MCPH-19": "Connecting again is a span, with what is asked meanwhile below it.",
    "MCPH-20": "Twenty servers of which five are broken do not delay a turn.",
    "MCPH-21": "A server's own answer decides nothing that it may not: forged ids and faults are its own failure.",
}
