"""Shows a run in a terminal as it happens: text as it streams, tool calls with a spinner, and how it ended.

Takes domain events and knows neither gRPC nor the engine. Without a terminal it prints the same lines, plainly. What
models and tools say is shown as text only: it can neither mark up nor steer the terminal.
"""

from __future__ import annotations

from rich.console import Console
from rich.status import Status
from rich.text import Text

from turnwired.domain.event import (
    ApprovalResolved,
    AttachmentUpdated,
    Event,
    HistoryTruncated,
    InputAppended,
    IterationRetryScheduled,
    PartFinished,
    ReasoningDelta,
    RunFinished,
    RunStarted,
    TextDelta,
    ToolCallArgumentsFinished,
    ToolCallExecuting,
    ToolCallFinished,
    ToolCallStarted,
    ToolsChanged,
)
from turnwired.domain.message import Blob, Data, Part, ToolResult, ToolResultStatus
from turnwired.domain.message import Text as TextContent
from turnwired.domain.outcome import Notice, OutcomeKind
from turnwired.domain.usage import Cost, Usage, UsageSource

PREVIEW = 160
# Everything that could move the cursor, set a title or change colours; a line break and a tab are just text.
_UNSEEN = {code: None for code in (*range(32), *range(0x7F, 0xA0)) if chr(code) not in "\n\t"}


class RunView:
    """One run on one console. Feed it every event in order; ``close`` it whatever happens."""

    def __init__(self, console: Console, *, show_reasoning: bool = False) -> None:
        self._console = console
        self._show_reasoning = show_reasoning
        self._names: dict[str, str] = {}
        self._arguments: dict[str, str] = {}
        self._running: dict[str, str] = {}
        self._status: Status | None = None
        self._mid_line = False
        self._mid_reasoning = False
        self.outcome: OutcomeKind | None = None
        self.run_id = ""

    def show(self, event: Event) -> None:
        """Show one event."""
        match event:
            case RunStarted():
                self.run_id = event.run_id
                tools = f", {len(event.tool_names)} tools" if event.tool_names else ""
                self._line(Text(f"run {event.run_id}  {event.model.provider}/{event.model.model}{tools}", style="dim"))
            case TextDelta():
                self._write(event.text, reasoning=False)
            case ReasoningDelta() if self._show_reasoning:
                self._write(event.text, reasoning=True)
            case PartFinished():
                self._part(event.part)
            case ToolCallStarted():
                self._names[event.call_id] = event.tool.routed_name if event.tool else event.requested_name
            case ToolCallArgumentsFinished():
                self._arguments[event.call_id] = event.arguments_json
            case ToolCallExecuting():
                self._executing(event.call_id)
            case ToolCallFinished():
                self._finished(event.result, event.duration_ns)
            case IterationRetryScheduled():
                self._warn(f"retry in {event.delay_ns / 1e9:.1f} s: {event.failure.message}")
            case RunFinished():
                self._ended(event)
            case _:
                self._told(event)

    def _told(self, event: Event) -> None:
        """What does not end the run but should be seen."""
        match event:
            case Notice():
                self._warn(f"notice: {event.message}")
            case ToolsChanged():
                self._line(Text(event.notice().message, style="dim"))
            case HistoryTruncated():
                self._warn(f"history: {event.dropped_message_count} messages are left out, it is too long")
            case AttachmentUpdated() if event.attachment.failure is not None:
                self._warn(f"attachment: {event.attachment.failure.message}")
            case ApprovalResolved():
                words = f": {event.comment}" if event.comment else ""
                self._line(Text(seen(f"{event.decision.value.lower()} by {event.resolved_by}{words}"), style="dim"))
            case InputAppended():
                self._line(Text("input was added", style="dim"))
            case _:
                pass

    def _part(self, part: Part) -> None:
        """Text was shown as it came; a file can only be named."""
        if isinstance(part.content, Blob):
            kind, size = seen(part.content.media_type), len(part.content.data)
            self._line(Text(f"file  {kind}, {size:,} bytes", style="dim"))

    def rewound(self) -> None:
        """What was shown last had not been stored when the server was lost, and counts no more."""
        self._spin(None)
        self._warn("the server was restarted; the words above that it had not stored no longer count")

    def close(self) -> None:
        """Stop the spinner and end the line."""
        if self._status is not None:
            self._status.stop()
            self._status = None
        if self._mid_line:
            self._console.print()
            self._mid_line = False

    def _write(self, text: str, *, reasoning: bool) -> None:
        self._spin(None)
        shown = seen(text)
        if shown:
            if self._mid_line and reasoning is not self._mid_reasoning:
                self._console.print()  # a pipe has no colours that would tell the two apart
            self._mid_reasoning = reasoning
            self._console.print(Text(shown, style="dim italic" if reasoning else ""), end="", soft_wrap=True)
            self._mid_line = not shown.endswith("\n")

    def _warn(self, text: str) -> None:
        self._line(Text(seen(text), style="yellow"))

    def _line(self, text: Text) -> None:
        if self._status is None and self._mid_line:
            self._console.print()
        self._mid_line = False
        self._console.print(text, soft_wrap=True)

    def _call(self, call_id: str) -> str:
        return f"{self._names.get(call_id, call_id)}({_short(self._arguments.get(call_id, ''))})"

    def _executing(self, call_id: str) -> None:
        if self._mid_line:
            self._console.print()
            self._mid_line = False
        self._running[call_id] = self._call(call_id)
        self._spin(", ".join(self._running.values()))

    def _spin(self, text: str | None) -> None:
        if text is None or not self._console.is_terminal:
            if self._status is not None:
                self._status.stop()
                self._status = None
            return
        if self._status is None:
            self._status = self._console.status(Text(text))
            self._status.start()
        else:
            self._status.update(Text(text))

    def _finished(self, result: ToolResult, duration_ns: int) -> None:
        self._running.pop(result.call_id, None)
        ok = result.status is ToolResultStatus.OK
        text = " ".join(filter(None, (_words(part) for part in result.content))) or result.structured_json or ""
        said = result.failure.message if result.failure is not None and not text else text
        mark = "✓" if ok else "✗"
        line = Text(f"{mark} {self._call(result.call_id)}", style="green" if ok else "red")
        line.append(f"  {duration_ns / 1e6:.0f} ms  {result.status.value.lower()}", style="dim")
        self._line(line)
        if said:
            self._line(Text(f"  {_short(said)}", style="dim"))
        self._spin(", ".join(self._running.values()) or None)

    def _ended(self, event: RunFinished) -> None:
        self._spin(None)
        if self._mid_line:
            self._console.print()
            self._mid_line = False
        self.outcome = event.outcome.kind
        if event.structured_output_json is not None:
            self._line(Text(f"structured output  {seen(event.structured_output_json)}"))
        good = event.outcome.kind is OutcomeKind.ANSWERED
        line = Text(event.outcome.kind.value, style="bold green" if good else "bold red")
        line.append(
            f"  {event.iteration_count} model calls, {event.tool_call_count} tool calls, "
            f"{usage_text(event.usage)}, cost {cost_text(event.cost, event.usage)}",
            style="dim",
        )
        self._line(line)
        failure = event.outcome.failure
        if failure is not None:
            self._line(Text(f"{failure.phase.value}/{failure.reason.value}: {seen(failure.message)}", style="red"))


def usage_text(usage: Usage) -> str:
    """Tokens in words; what the provider did not say is said to be so."""
    if usage.input_tokens is None and usage.output_tokens is None:
        return "tokens not reported"
    about = "about " if usage.source in (UsageSource.ESTIMATED, UsageSource.MIXED) else ""
    return f"{about}{_count(usage.input_tokens)} tokens in, {_count(usage.output_tokens)} out"


def cost_text(cost: Cost | None, usage: Usage) -> str:
    """Money in words; an unknown price is said, never guessed, and only where tokens ask for one."""
    if cost is None:
        tokens = usage.input_tokens is not None or usage.output_tokens is not None
        return "unknown (no price for the model)" if tokens else "unknown"
    bound = "" if cost.complete else "at least "
    return f"{bound}{cost.amount_nanos / 1e9:.6f} {cost.currency_code}"


def _words(part: Part) -> str:
    match part.content:
        case TextContent(text):
            return text
        case Data(json):
            return json
        case _:
            return ""


def seen(text: str) -> str:
    """The text without the characters that steer a terminal."""
    return text.translate(_UNSEEN)


def _count(value: int | None) -> str:
    return "?" if value is None else f"{value:,}"


def _short(text: str) -> str:
    flat = " ".join(seen(text).split())
    return flat if len(flat) <= PREVIEW else f"{flat[: PREVIEW - 1]}…"
