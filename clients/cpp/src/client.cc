#include "turnwire/client.h"

#include <grpc/grpc.h>
#include <grpcpp/create_channel.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "turnwire/errors.h"
#include "turnwire/v1/agent_service.pb.h"
#include "turnwire/v1/mcp_server_service.pb.h"
#include "turnwire/v1/server_service.pb.h"
#include "turnwire/v1/session_service.pb.h"
#include "turnwire/v1/tool_host_registry_service.pb.h"
#include "turnwire/v1/turn_service.grpc.pb.h"
#include "waiting.h"

namespace turnwire {
namespace {

constexpr int kTries = 4;  // of a call that is safe to make twice, the first one counted

// Has gRPC itself repeat the methods of which the contract says that repeating is safe (gRFC A6), and no others.
std::string service_config() {
  const google::protobuf::FileDescriptor* files[] = {
      v1::GetAgentRequest::descriptor()->file(),      v1::ListMcpServersRequest::descriptor()->file(),
      v1::GetServerInfoRequest::descriptor()->file(), v1::GetSessionRequest::descriptor()->file(),
      v1::ListToolHostsRequest::descriptor()->file(), v1::GetRunRequest::descriptor()->file(),
  };
  std::string names;
  for (const auto* file : files) {
    for (int i = 0; i < file->service_count(); ++i) {
      const auto* service = file->service(i);
      for (int j = 0; j < service->method_count(); ++j) {
        const auto* method = service->method(j);
        if (method->server_streaming()) continue;
        if (method->options().idempotency_level() == google::protobuf::MethodOptions::IDEMPOTENCY_UNKNOWN) continue;
        names += names.empty() ? "" : ",";
        names += R"({"service":")" + std::string(service->full_name()) + R"(","method":")" +
                 std::string(method->name()) + R"("})";
      }
    }
  }
  return R"({"methodConfig":[{"name":[)" + names + R"(],"retryPolicy":{"maxAttempts":)" + std::to_string(kTries) +
         R"(,"initialBackoff":"0.1s","maxBackoff":"5s","backoffMultiplier":2,"retryableStatusCodes":["UNAVAILABLE"]}}]})";
}

std::shared_ptr<grpc::Channel> channel_to(const std::string& target, const ClientOptions& options) {
  const Resume pace;
  grpc::ChannelArguments arguments = options.arguments;
  arguments.SetServiceConfigJSON(service_config());
  arguments.SetMaxReceiveMessageSize(options.max_message_bytes);
  arguments.SetMaxSendMessageSize(options.max_message_bytes);
  // What a call sends is kept for its next try; gRPC keeps 256 KiB unless told, and would not try more again.
  arguments.SetInt(GRPC_ARG_PER_RPC_RETRY_BUFFER_SIZE, options.max_message_bytes);
  arguments.SetUserAgentPrefix("turnwire-cpp/" TURNWIRE_VERSION);
  // Calls fail at once while the channel waits before it connects again: it must not wait longer than resuming does.
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, static_cast<int>(pace.initial_delay.count()));
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, static_cast<int>(pace.max_delay.count()));
  const auto credentials = options.credentials ? options.credentials : grpc::InsecureChannelCredentials();
  return grpc::CreateCustomChannel(target, credentials, arguments);
}

// gRPC shuts itself down with its last object, and then waits up to ten seconds for the poller of a connection that has
// just carried a large message. So the first client of a program starts it for good.
void start_grpc() {
  static const bool started = (grpc_init(), true);
  static_cast<void>(started);
}

bool fits_a_header(const std::string& text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c <= '~'; });
}

}  // namespace

struct Client::Connection {
  std::shared_ptr<grpc::Channel> channel;
  std::string token;
  milliseconds deadline;
};

Client::Client(const std::string& target, ClientOptions options) {
  // gRPC would end the program.
  if (!fits_a_header(options.token)) throw std::invalid_argument("the token has characters that no header can carry");
  start_grpc();
  auto channel = channel_to(target, options);
  connection_ =
      std::make_shared<const Connection>(Connection{std::move(channel), std::move(options.token), options.deadline});
}

const std::shared_ptr<grpc::Channel>& Client::channel() const {
  return connection_->channel;
}

void Client::authorize(grpc::ClientContext& context) const {
  if (!connection_->token.empty()) context.AddMetadata("authorization", "Bearer " + connection_->token);
}

void Client::perform(const std::function<grpc::Status(grpc::ClientContext*)>& call, const CallOptions& options) const {
  grpc::ClientContext context;
  authorize(context);
  internal::limit(context, internal::after(options.timeout.value_or(connection_->deadline)));
  const std::stop_callback cancelled(options.stop, internal::Cancelling{&context});
  const grpc::Status status = call(&context);
  if (status.ok()) return;
  if (options.stop.stop_requested()) throw Cancelled();
  throw_status(status);
}

v1::StartTurnResponse Client::start_turn(v1::StartTurnRequest request, const CallOptions& options) const {
  if (request.turn().request_id().empty()) request.mutable_turn()->set_request_id(new_request_id());
  const internal::Deadline deadline = internal::after(options.timeout.value_or(connection_->deadline));
  for (int tries = 1;; ++tries) {
    try {
      return call(&v1::TurnService::Stub::StartTurn, request, {internal::left(deadline), options.stop});
    } catch (const Error& error) {
      if (error.code() != grpc::StatusCode::UNAVAILABLE || tries == kTries) throw;
    }
    internal::pause(Resume{}.delay(tries), deadline, options.stop);
  }
}

v1::RunTurnRequest prompt(std::string text) {
  v1::RunTurnRequest request;
  v1::Message* message = request.mutable_turn()->add_input();
  message->set_role(v1::ROLE_USER);
  message->add_parts()->set_text(std::move(text));
  return request;
}

}  // namespace turnwire
