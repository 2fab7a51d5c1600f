//! The unary calls of the contract. One that the contract calls idempotent is tried again while the server is not there.

use uuid::Uuid;

use crate::client::{Client, Service};
use crate::error::Error;
use crate::v1::agent_service_client::AgentServiceClient;
use crate::v1::mcp_server_service_client::McpServerServiceClient;
use crate::v1::server_service_client::ServerServiceClient;
use crate::v1::session_service_client::SessionServiceClient;
use crate::v1::tool_host_registry_service_client::ToolHostRegistryServiceClient;
use crate::v1::turn_service_client::TurnServiceClient;
#[allow(clippy::wildcard_imports)] // two messages for each call
use crate::v1::*;

macro_rules! calls {
    ($($stub:ident { $($(#[doc = $doc:literal])* $safety:ident $name:ident($request:ty) -> $response:ty;)* })*) => {
        impl Client {
            $($(
                $(#[doc = $doc])*
                pub async fn $name(&self, request: $request) -> Result<$response, Error> {
                    self.unary(is_safe!($safety), request, |request| {
                        let mut stub = $stub::<Service>::new(self.service())
                            .max_decoding_message_size(self.max_message_bytes())
                            .max_encoding_message_size(self.max_message_bytes());
                        async move { stub.$name(request).await }
                    })
                    .await
                }
            )*)*
        }
    };
}

macro_rules! is_safe {
    (safe) => {
        true
    };
    (once) => {
        false
    };
}

impl Client {
    /// Starts a turn and returns its ids at once. Follow it with [`Client::follow`] of a `WatchRunRequest`. A turn
    /// without a `request_id` gets one, so that it can be tried again.
    pub async fn start_turn(&self, mut request: StartTurnRequest) -> Result<StartTurnResponse, Error> {
        let turn = request.turn.get_or_insert_default();
        if turn.request_id.is_empty() {
            turn.request_id = Uuid::new_v4().to_string();
        }
        self.unary(true, request, |request| {
            let mut stub = self.turns();
            async move { stub.start_turn(request).await }
        })
        .await
    }
}

calls! {
    TurnServiceClient {
        /// Reads a run without streaming, with its final message when it has settled.
        safe get_run(GetRunRequest) -> GetRunResponse;
        /// Lists the runs that the caller may see, newest first.
        safe list_runs(ListRunsRequest) -> ListRunsResponse;
        /// Asks a run to stop.
        safe cancel_run(CancelRunRequest) -> CancelRunResponse;
        /// Lists approvals, oldest first; those of other callers' sessions for operators only.
        safe list_approvals(ListApprovalsRequest) -> ListApprovalsResponse;
        /// Answers one pending approval: once, always, or reject.
        safe resolve_approval(ResolveApprovalRequest) -> ResolveApprovalResponse;
        /// Hands in results of tools that the caller executes.
        safe submit_tool_results(SubmitToolResultsRequest) -> SubmitToolResultsResponse;
        /// Adds input to a run in progress: an attachment that has become ready, or a word from the user.
        safe append_input(AppendInputRequest) -> AppendInputResponse;
        /// Computes the policy that a run would get, without running anything.
        safe resolve_policy(ResolvePolicyRequest) -> ResolvePolicyResponse;
        /// Counts the input tokens of the first model call that this turn would make.
        safe count_tokens(CountTokensRequest) -> CountTokensResponse;
        /// Lists the tools a run would see: the registry as seen by this caller.
        safe list_tools(ListToolsRequest) -> ListToolsResponse;
    }
    SessionServiceClient {
        /// Reads one session.
        safe get_session(GetSessionRequest) -> GetSessionResponse;
        /// Lists the sessions that the caller may see, newest change first.
        safe list_sessions(ListSessionsRequest) -> ListSessionsResponse;
        /// Lists the messages of one session, oldest first.
        safe list_messages(ListMessagesRequest) -> ListMessagesResponse;
        /// Deletes a session with its messages and runs.
        safe delete_session(DeleteSessionRequest) -> DeleteSessionResponse;
    }
    AgentServiceClient {
        /// Creates or changes an agent.
        safe put_agent(PutAgentRequest) -> PutAgentResponse;
        /// Reads one agent.
        safe get_agent(GetAgentRequest) -> GetAgentResponse;
        /// Lists agents by their ids.
        safe list_agents(ListAgentsRequest) -> ListAgentsResponse;
    }
    ServerServiceClient {
        /// Reads the server's version, capabilities and providers.
        safe get_server_info(GetServerInfoRequest) -> GetServerInfoResponse;
    }
    McpServerServiceClient {
        /// Lists MCP servers with their connection status.
        safe list_mcp_servers(ListMcpServersRequest) -> ListMcpServersResponse;
        /// Lets an MCP server be used, and connects to it.
        safe enable_mcp_server(EnableMcpServerRequest) -> EnableMcpServerResponse;
        /// Stops using an MCP server.
        safe disable_mcp_server(DisableMcpServerRequest) -> DisableMcpServerResponse;
        /// Drops the connection, its session and its tool cache, and connects again.
        safe reconnect_mcp_server(ReconnectMcpServerRequest) -> ReconnectMcpServerResponse;
        /// Adds an MCP server until the service ends, and connects to it.
        once add_mcp_server(AddMcpServerRequest) -> AddMcpServerResponse;
        /// Ends and forgets an MCP server that was added at runtime.
        once remove_mcp_server(RemoveMcpServerRequest) -> RemoveMcpServerResponse;
    }
    ToolHostRegistryServiceClient {
        /// Registers an app, or renews its lease.
        safe register_tool_host(RegisterToolHostRequest) -> RegisterToolHostResponse;
        /// Ends a registration before its lease does.
        safe unregister_tool_host(UnregisterToolHostRequest) -> UnregisterToolHostResponse;
        /// Lists the apps of the configuration and those that callers of this tenant have registered.
        safe list_tool_hosts(ListToolHostsRequest) -> ListToolHostsResponse;
    }
}
