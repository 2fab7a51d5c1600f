"""From an accepted turn to what its execution needs: agent, model, policy, tools, history, telemetry.

What the caller did wrong is raised before a run exists; what fails afterwards becomes the run's failure in phase
PREPARATION, so that a run that was accepted always settles.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from turnwired.codec.message import decode_message
from turnwired.context.history import Piece
from turnwired.context.prompt import EncodedMessages, Prompt
from turnwired.domain.errors import (
    Conflict,
    FieldViolation,
    InvalidRequest,
    ProviderError,
    StoreError,
    ToolError,
    TurnwireError,
    Unavailable,
)
from turnwired.domain.event import LoggedEvent, RunStarted
from turnwired.domain.failure import Failure, FailurePhase, Reason
from turnwired.domain.message import Message
from turnwired.domain.model import ModelSelection
from turnwired.domain.policy import (
    NO_POLICY,
    ApprovalPolicy,
    ContextPolicy,
    EffectivePolicy,
    OutputPolicy,
    PermissionAction,
    PermissionRule,
    Policy,
    PolicyLayer,
)
from turnwired.domain.run import OPERATOR_ROLE, Agent, Caller, Run, TurnSpec
from turnwired.domain.tool import ToolChoice, ToolChoiceMode, ToolSelection
from turnwired.engine.agent_tools import AgentToolset, ChildRuns
from turnwired.engine.agents import AgentBook
from turnwired.engine.attaching import without_unreadable
from turnwired.engine.budgets import BUDGETS_ESTIMATED, BudgetBook, Line, Purse, Spender
from turnwired.engine.completion import require_completion
from turnwired.engine.fitting import fit
from turnwired.engine.left_out import notices_of
from turnwired.engine.ports import Wiring
from turnwired.engine.prepared import Prepared
from turnwired.engine.pricing import Pricing, require_measurable
from turnwired.engine.request import base_request, output_check, require_supported, selected
from turnwired.engine.run_tools import RunTools
from turnwired.policy.bounds import Bounds, bounds_of
from turnwired.policy.merge import Layer, merge
from turnwired.policy.permissions import Permissions, permissions_of
from turnwired.providers.port import CallLimits, ModelLimits, ModelProvider, ModelRequest
from turnwired.telemetry.port import RunInfo, RunTelemetry
from turnwired.tools.port import Toolset, ToolView
from turnwired.turn.setup import OutputCheck, TurnSetup

logger = logging.getLogger(__name__)


COUNT_SECONDS = 10.0
"""How long a provider's token counter may take."""
MOST_PLAIN_POLICIES = 1000


@dataclass(frozen=True, slots=True)
class Resolved:
    """A turn checked against the deployment: it may become a run."""

    spec: TurnSpec
    agent: Agent
    model: ModelSelection
    provider: ModelProvider
    policy: EffectivePolicy
    tools: ToolSelection
    input: tuple[Piece, ...]
    """The input as the provider takes it. Encoded before the run exists: what cannot be sent must not enter a session,
    where every later turn would meet it again."""
    request: ModelRequest
    """What the model calls of the run have in common."""
    check_output: OutputCheck | None
    acting: Caller
    """As whom its tools are called."""


class Preparer:
    """Resolves and prepares turns for one deployment."""

    def __init__(self, wiring: Wiring, children: ChildRuns) -> None:
        self._wiring = wiring
        self._children = children
        self.agents = AgentBook(wiring.agents, wiring.store, wiring.config.default_agent)
        self.budgets = BudgetBook(wiring.store)
        self._encoded = EncodedMessages()
        self._plain_policies: dict[tuple[int, ModelLimits], tuple[Agent, EffectivePolicy]] = {}
        self._plain_bounds: dict[int, tuple[EffectivePolicy, Bounds]] = {}

    def agent(self, agent_id: str, caller: Caller) -> Agent:
        """The agent, or the default one. Raises NotFound."""
        return self.agents.find(agent_id, caller.tenant)

    def acting(self, agent: Agent, caller: Caller) -> Caller:
        """As whom a run of the agent calls tools: its caller, or the principal that the agent runs as, in the caller's
        tenant. Raises InvalidRequest when the configuration does not know that one any more.
        """
        if not agent.run_as:
            return caller
        roles = self._wiring.config.principals.get(agent.run_as)
        if roles is None:
            problem = f"no caller of the configuration has the principal {agent.run_as[:64]!r}"
            raise InvalidRequest([FieldViolation("agent.run_as", problem)])
        return Caller(caller.tenant, agent.run_as, roles)

    def seen_as(self, agent: Agent, caller: Caller) -> Caller:
        """As whom the tools of an agent are listed: as a run of it would call them, but that operator tools are shown
        to operators only. Raises InvalidRequest as ``acting``.
        """
        acting = self.acting(agent, caller)
        return acting if OPERATOR_ROLE in caller.roles else replace(acting, roles=acting.roles - {OPERATOR_ROLE})

    def check(self, agent: Agent, caller: Caller) -> None:
        """Raises InvalidRequest for an agent whose runs would be refused: no such provider, a policy against a rule, or
        an identity that is not there, or not the tenant's.
        """
        self.acting(agent, caller)
        if agent.run_as and self._wiring.config.tenants.get(agent.run_as) != caller.tenant:
            raise InvalidRequest([FieldViolation("agent.run_as", "is a principal of another tenant")])
        model, provider = self.model(agent, agent.model, "agent.model")
        self._merged(agent, provider.limits(model.model), Policy())

    def policy(self, agent: Agent, limits: ModelLimits, run: Policy, session: Layer | None = None) -> EffectivePolicy:
        """The policy of a run with a model of these limits. Raises InvalidRequest for what is not enforced."""
        if session is not None or (run is not NO_POLICY and run != NO_POLICY):
            return self._merged(agent, limits, run, session)
        # Merging some fifty leaves costs as much as a short turn; most runs override none of them. The limits stand for
        # the model: there are as many as rows in the profiles, while callers name models as they like.
        key = (id(agent), limits)  # tenants may have agents of one id; the newest revision is the same object
        kept = self._plain_policies.get(key)
        if kept is not None and kept[0] is agent:
            policy = kept[1]
        else:
            if len(self._plain_policies) >= MOST_PLAIN_POLICIES:  # old revisions of agents that change
                self._plain_policies.clear()
                self._plain_bounds.clear()
            policy = self._merged(agent, limits, run)
            self._plain_policies[key] = agent, policy
            self._plain_bounds[id(policy)] = policy, bounds_of(policy)
        return policy

    def _bounds(self, policy: EffectivePolicy) -> Bounds:
        kept = self._plain_bounds.get(id(policy))
        return kept[1] if kept is not None and kept[0] is policy else bounds_of(policy)

    async def session_layer(self, caller: Caller, session_id: str | None) -> Layer | None:
        """What the standing answers of a session add to the policy of its runs; None: nothing. Raises StoreError."""
        if session_id is None:
            return None
        stored = await self._wiring.store.session_rules(caller.tenant, session_id)
        if not stored:
            return None
        rules = tuple(PermissionRule(rule.permission, rule.pattern, PermissionAction(rule.action)) for rule in stored)
        return Layer(PolicyLayer.SESSION, session_id, Policy(approval=ApprovalPolicy(rules=rules)))

    def _merged(self, agent: Agent, limits: ModelLimits, run: Policy, session: Layer | None = None) -> EffectivePolicy:
        config = self._wiring.config
        policy = merge(
            [
                Layer(PolicyLayer.DEPLOYMENT, config.deployment_ref, config.deployment_policy),
                Layer(PolicyLayer.AGENT, f"{agent.agent_id}@{agent.revision}", agent.policy),
                *(() if session is None else (session,)),
                Layer(PolicyLayer.RUN, "", run),
            ],
            config.ceiling,
            _native(limits),
        )
        require_completion(policy, run, self._wiring.completion_hooks)
        return policy

    def model(self, agent: Agent, asked: ModelSelection | None, path: str) -> tuple[ModelSelection, ModelProvider]:
        """The model to call and its provider. ``path`` leads to ``asked`` in the request.

        Raises InvalidRequest for a provider that is not configured.
        """
        default = agent.model or self._wiring.default_model
        model = selected(asked, default)
        provider = self._wiring.providers.get(model.provider)
        if provider is None:
            known = ", ".join(sorted(self._wiring.providers))
            problem = f"no provider {model.provider!r} is configured; there are: {known}"
            raise InvalidRequest([FieldViolation(f"{path}.provider", problem)], Reason.PROVIDER_NOT_CONFIGURED)
        if not model.model:
            problem = f"is needed with provider {model.provider!r}{_offered(provider)}"
            raise InvalidRequest([FieldViolation(f"{path}.model", problem)])
        return model, provider

    def resolve(self, spec: TurnSpec) -> Resolved:
        """Check a turn against the deployment. Raises RequestError."""
        agent = self.agent(spec.agent_id, spec.caller)
        model, provider = self.model(agent, spec.model, "turn.model")
        self.check_client_tools(spec.tools, "turn.tools")
        tools = selection(agent, spec.tools)
        policy = self.policy(agent, provider.limits(model.model), spec.policy)
        check = output_check(spec, self._wiring.compile_output)
        acting = self.acting(agent, spec.caller)
        bounds = self._bounds(policy)
        request = base_request(spec, agent, model, bounds, tools.choice)
        require_supported(provider, request, spec, agent)
        spec, pieces = _readable(provider, spec)
        return Resolved(spec, agent, model, provider, policy, tools, pieces, request, check, acting)

    def resolve_again(self, spec: TurnSpec, agent: Agent, started: RunStarted) -> Resolved:
        """A turn whose run goes on after a restart: under the policy and with the model that it began with.

        Raises RequestError when the deployment does not have them any more.
        """
        model, provider = self.model(agent, started.model, "turn.model")
        tools = selection(agent, spec.tools)
        policy = started.effective_policy
        check = output_check(spec, self._wiring.compile_output)
        acting = self.acting(agent, spec.caller)
        request = base_request(spec, agent, model, bounds_of(policy), tools.choice)
        return Resolved(spec, agent, model, provider, policy, tools, _encoded(provider, spec), request, check, acting)

    def check_client_tools(self, asked: ToolSelection, path: str) -> None:
        """Raises InvalidRequest for tools of the caller that no run could have."""
        if not asked.client_tools:
            return
        found = self._wiring.registry.problems(asked.client_tools)
        if found:
            told = [FieldViolation(f"{path}.client_tools{item.field}", item.description) for item in found]
            raise InvalidRequest(told)

    def is_bounded(self, resolved: Resolved) -> bool:
        """Whether the policy of the run sets any budget."""
        return bool(self._bounds(resolved.policy).budgets)

    async def require_measurable(self, resolved: Resolved, inherited: Sequence[Line]) -> None:
        """Raises InvalidRequest (LIMIT_NOT_MEASURABLE) for a budget that the model's price cannot be held against."""
        budgets = [*self._bounds(resolved.policy).budgets, *(line.budget for line in inherited)]
        require_measurable(budgets, await self._wiring.price_of(resolved.model), "turn.policy")

    async def view(self, agent: Agent, tools: ToolSelection, caller: Caller, depth: int = 0) -> ToolView:
        """The tools that a run of the agent with this selection sees. ``depth``: how many runs stand above it."""
        return await self._wiring.registry.view(tools, caller, self._own_sources(agent, caller, depth))

    def _own_sources(self, agent: Agent, caller: Caller, depth: int) -> list[Toolset]:
        """What one run has beside the tools of the deployment: the agents that it may call, unless it is too deep."""
        if not agent.agents or depth >= self._wiring.config.max_run_depth:
            return []
        found = [(agent_id, self.agents.known(agent_id, caller.tenant)) for agent_id in dict.fromkeys(agent.agents)]
        known = [other for _, other in found if other is not None]
        return [AgentToolset(known, [agent_id for agent_id, other in found if other is None], self._children)]

    async def prepare(
        self,
        resolved: Resolved,
        run: Run,
        input_: Sequence[Message],
        parent_headers: Mapping[str, str],
        depth: int = 0,
        inherited: Sequence[Line] = (),
        sessions: tuple[str, ...] = (),
        *,
        parents: tuple[Permissions, ...] = (),
        past: Sequence[LoggedEvent] = (),
    ) -> tuple[Prepared, TurnSetup]:
        """Gather all that the run needs. Raises only cancellation.

        ``depth``: how many runs stand above it; ``inherited`` are their budgets, ``parents`` the permissions of the one
        above. ``sessions``: its own and theirs. ``past``: the log of a run that goes on after a restart, with its
        policy and its tools.
        """
        spec, agent = resolved.spec, resolved.agent
        tools, prompt, failure = await self._gather(resolved, run.run_id, depth, past)
        view = None if tools is None else tools.view
        policy = resolved.policy
        if failure is None and not past:
            policy, failure = await self._with_session(resolved, run.run_id)
        telemetry = self._begin_telemetry(resolved, run, view, parent_headers)
        run = replace(run, trace_context=telemetry.trace_context, model=resolved.model)
        bounds = self._bounds(policy)
        price = await self._wiring.price_of(resolved.model)
        purse: Purse | None = None
        if failure is None and (bounds.budgets or inherited):
            spender = Spender(run.run_id, spec.caller.tenant, spec.session_id, run.create_time_ns, sessions)
            pricing = Pricing(price, bounds.iteration_timeout)
            purse, failure = await self._purse(resolved, spender, bounds, pricing, inherited)
        estimated = purse is not None and not resolved.provider.info.reports_usage
        setup = TurnSetup(
            run_id=run.run_id,
            agent_id=agent.agent_id,
            agent_revision=agent.revision,
            model=resolved.model,
            effective_policy=policy,
            bounds=bounds,
            tools={} if tools is None else tools.refs,
            offered=() if tools is None else tools.names,
            session_id=spec.session_id,
            parent_run_id=spec.parent_run_id,
            input_message_ids=tuple(message.message_id for message in input_),
            trace_context=telemetry.trace_context,
            include_trace=spec.include_trace,
            notices=(*notices_of(view), *((BUDGETS_ESTIMATED,) if estimated else ())),
            price=price,
            check_output=resolved.check_output,
            polling_tools=self._wiring.config.polling_tools,
            permissions=replace(permissions_of(policy.policy, len(spec.policy.approval.rules)), parents=parents),
            attachments=spec.attachments,
        )
        prepared = Prepared(
            spec=replace(spec, tools=resolved.tools),
            run=run,
            bounds=bounds,
            tools=tools,
            provider=resolved.provider,
            prompt=prompt,
            request=resolved.request,
            telemetry=telemetry,
            failure=failure,
            purse=purse,
            sessions=sessions,
            acting=resolved.acting,
        )
        return prepared, setup

    def _begin_telemetry(
        self, resolved: Resolved, run: Run, view: ToolView | None, parent_headers: Mapping[str, str]
    ) -> RunTelemetry:
        spec, info = resolved.spec, resolved.provider.info
        return self._wiring.telemetry.begin_run(
            RunInfo(
                run_id=run.run_id,
                agent_id=resolved.agent.agent_id,
                session_id=spec.session_id,
                model=resolved.model,
                provider_name=info.telemetry_name,
                server_address=info.server_address,
                server_port=info.server_port,
                stream_end=info.stream_end,
                stream_end_layer=info.stream_end_layer,
                tools=tuple(view.tools) if view is not None else (),
                labels=spec.labels,
                structured=spec.output_format is not None,
                parent_headers=parent_headers,
            )
        )

    async def _with_session(self, resolved: Resolved, run_id: str) -> tuple[EffectivePolicy, Failure | None]:
        """The policy with the session's own layer, or why that could not be read."""
        spec = resolved.spec
        try:
            session = await self.session_layer(spec.caller, spec.session_id)
        except StoreError as error:
            logger.error("run %s: the session's rules could not be read: %s", run_id, error)  # noqa: TRY400 - the error says it all
            words = "The session's rules could not be read. Try again; the server's log says what is wrong."
            return resolved.policy, replace(_failure(Reason.STORE_UNAVAILABLE, words), retryable=True)
        if session is None:
            return resolved.policy, None
        limits = resolved.provider.limits(resolved.model.model)
        return self.policy(resolved.agent, limits, spec.policy, session), None

    def permissions(self, agent: Agent, session: Layer | None) -> Permissions:
        """What the rules say for runs of an agent, without what a run itself sets. Raises InvalidRequest."""
        model, provider = self.model(agent, None, "model")
        policy = self.policy(agent, provider.limits(model.model), NO_POLICY, session)
        return permissions_of(policy.policy)

    async def _purse(
        self, resolved: Resolved, spender: Spender, bounds: Bounds, pricing: Pricing, inherited: Sequence[Line]
    ) -> tuple[Purse | None, Failure | None]:
        most = resolved.policy.policy.output.max_output_tokens
        known = most if isinstance(most, int) else None
        try:
            return await self.budgets.open(spender, bounds.budgets, pricing, known, inherited), None
        except StoreError as error:
            logger.error("run %s: what was spent could not be read: %s", spender.run_id, error)  # noqa: TRY400 - the error says it all
            words = "What was spent before could not be read. Try again; the server's log says what is wrong."
            return None, replace(_failure(Reason.STORE_UNAVAILABLE, words), retryable=True)

    async def first_request(self, resolved: Resolved) -> ModelRequest:
        """The first model call that a run of this turn would make. Raises RequestError where none could be made."""
        _, prompt, failure = await self._gather(resolved, "", 0)
        if failure is not None or prompt is None:
            assert failure is not None, "a prompt is missing only for a reason"
            if failure.reason is Reason.STORE_UNAVAILABLE:
                raise Unavailable(failure.reason, failure.message)
            raise Conflict(failure.reason, failure.message)
        request = replace(
            resolved.request,
            system=prompt.system,
            tools=prompt.tools,
            offered=prompt.offered,
            limits=CallLimits(total=COUNT_SECONDS),
        )
        with suppress(ProviderError):  # the count says by how much it is too long
            await fit(prompt.history, resolved.provider, request, self._bounds(resolved.policy))
        return replace(request, messages=prompt.messages())

    async def _gather(
        self, resolved: Resolved, run_id: str, depth: int, past: Sequence[LoggedEvent] = ()
    ) -> tuple[RunTools | None, Prompt | None, Failure | None]:
        """The tools and the first request, as far as they came before a failure."""
        tools: RunTools | None = None
        prompt: Prompt | None = None
        choice = resolved.tools.choice
        try:
            if choice.mode is not ToolChoiceMode.NONE:
                tools = await self._tools(resolved, depth, past)
            if choice.routed_name is not None and (tools is None or choice.routed_name not in tools.view.refs):
                raise _no_tool(f"The run is to call the tool {choice.routed_name[:64]!r} first, and does not have it.")
            shown = () if tools is None else tools.shown
            if choice.mode is ToolChoiceMode.REQUIRED and not shown:
                raise _no_tool("The run is to call a tool first, and has none.")
            prompt = Prompt(resolved.provider, resolved.agent.instructions, shown)
            await self._add_history(prompt, resolved, run_id)
            prompt.history.ask(resolved.input)
        except InvalidRequest as error:
            return tools, prompt, _failure(Reason.PROVIDER_REJECTED, error.message)
        except StoreError as error:
            logger.error("run %s: the session's history could not be read: %s", run_id, error)  # noqa: TRY400 - the error says it all
            words = "The session's history could not be read. Try again; the server's log says what is wrong."
            return tools, prompt, replace(_failure(Reason.STORE_UNAVAILABLE, words), retryable=True)
        except ToolError as error:
            return tools, prompt, replace(error.failure, phase=FailurePhase.PREPARATION)
        except TurnwireError as error:
            logger.error("run %s: could not be prepared: %s", run_id, error)  # noqa: TRY400 - the error says it all
            words = "The service failed while it prepared the run. This is its own fault; its log has the details."
            return tools, prompt, _failure(Reason.INTERNAL, words)
        return tools, prompt, None

    async def _tools(self, resolved: Resolved, depth: int, past: Sequence[LoggedEvent]) -> RunTools:
        selected, caller = resolved.tools, resolved.acting
        view = await self.view(resolved.agent, selected, caller, depth)

        async def look(now: ToolView) -> ToolView:
            return await self._wiring.registry.revised(now, selected, caller)

        tools = RunTools(view, look, selected.choice.routed_name)
        if past:
            tools.restore(past)
        return tools

    async def _add_history(self, prompt: Prompt, resolved: Resolved, run_id: str) -> None:
        spec = resolved.spec
        if spec.session_id is None:
            return
        pieces: list[Piece] = []
        for stored in await self._wiring.store.load_messages(spec.caller.tenant, spec.session_id):
            if stored.run_id == run_id:
                continue  # this run's input was stored with the claim of the session; it is added as input
            key = (resolved.model.provider, stored.run_id or "", stored.message_id)
            piece = self._encoded.get(key)
            if piece is None:
                message = decode_message(stored.body)
                piece = Piece(resolved.provider.encode_message(message), message.role)
                self._encoded.put(key, piece)
            pieces.append(piece)
        prompt.history.add(pieces)


def _native(limits: ModelLimits) -> Layer:
    """The provider's layer of policy: what its model takes and gives by itself."""
    policy = Policy(
        context=ContextPolicy(max_history_tokens=limits.context_tokens),
        output=OutputPolicy(max_output_tokens=limits.output_tokens),
    )
    return Layer(PolicyLayer.PROVIDER_NATIVE, limits.source, policy)


def selection(agent: Agent, asked: ToolSelection) -> ToolSelection:
    """The agent's selection narrowed by the request's: a run never sees a tool that its agent does not allow."""
    unset = ToolChoice()
    return ToolSelection(
        include=agent.tools.include,
        exclude=(*agent.tools.exclude, *asked.exclude),
        narrow=asked.include,
        choice=asked.choice if asked.choice != unset else agent.tools.choice,
        client_tools=asked.client_tools,
    )


def _readable(provider: ModelProvider, spec: TurnSpec) -> tuple[TurnSpec, tuple[Piece, ...]]:
    """The turn, encoded, with a note in place of each file that the model does not take. Raises InvalidRequest."""
    try:
        return spec, _encoded(provider, spec)
    except InvalidRequest:
        changed = without_unreadable(spec, provider)
        if changed is spec:
            raise
        return changed, _encoded(provider, changed)


def _encoded(provider: ModelProvider, spec: TurnSpec) -> tuple[Piece, ...]:
    pieces: list[Piece] = []
    for index, message in enumerate(spec.input):
        try:
            pieces.append(Piece(provider.encode_message(message), message.role))
        except InvalidRequest as error:
            refusal = _refusal(provider, message) or error
            path = f"turn.input[{index}]"
            raise InvalidRequest(
                [FieldViolation(f"{path}.{item.field}", item.description) for item in refusal.violations],
                refusal.reason,
            ) from error
    return tuple(pieces)


def _refusal(provider: ModelProvider, message: Message) -> InvalidRequest | None:
    """Why a message of the request is refused. Wires name a part by its id, which the caller's parts need not have: so
    each has its place for one here.
    """
    parts = tuple(replace(part, part_id=str(place)) for place, part in enumerate(message.parts))
    try:
        provider.encode_message(replace(message, parts=parts))
    except InvalidRequest as error:
        return error
    return None


def _offered(provider: ModelProvider) -> str:
    models = provider.info.models
    return f", such as {', '.join(models[:3])}" if models else ""


def _no_tool(what: str) -> ToolError:
    advice = "Look at ListTools, or leave the choice to the model."
    return ToolError(Failure(FailurePhase.PREPARATION, Reason.TOOL_NOT_FOUND, f"{what} {advice}"))


def _failure(reason: Reason, message: str) -> Failure:
    return Failure(FailurePhase.PREPARATION, reason, message)
