// The connection to a server: its address, the caller's token, deadlines, limits, and which calls are made again.
#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/channel_arguments.h>
#include <grpcpp/support/status.h>

#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <type_traits>

#include "turnwire/cursor.h"
#include "turnwire/run.h"
#include "turnwire/updates.h"
#include "turnwire/v1/turn_service.pb.h"
#include "turnwire/view.h"

namespace turnwire {

struct ClientOptions {
  // Sent as "authorization: Bearer …" with every call.
  std::string token;
  // Of the connection. Without them it is in the clear, the token too: for this machine and for private networks.
  std::shared_ptr<grpc::ChannelCredentials> credentials;
  // How long a call that is no stream may take, its further tries included.
  milliseconds deadline{30'000};
  // The largest message that is sent or taken.
  int max_message_bytes = 16 << 20;
  // Arguments of the channel besides, such as those of keepalive.
  grpc::ChannelArguments arguments;
};

struct CallOptions {
  // In place of the client's deadline.
  std::optional<milliseconds> timeout;
  // Asked to stop, the call is cancelled and throws Cancelled.
  std::stop_token stop;
};

// Calls a Turnwire server. Copies share the connection; it may be used by several threads at once.
class Client {
 public:
  // Of the server at `target`, such as "127.0.0.1:7443". It connects with the first call. Throws std::invalid_argument
  // for a token that no header can carry.
  explicit Client(const std::string& target, ClientOptions options = {});

  // Runs a turn or watches a run, and gives what happens until RunFinished (or RunWaiting with ON_WAIT_CLOSE). A cut
  // stream is taken up again where it stopped, by WatchRun once the run is known.
  [[nodiscard]] Updates follow(Request request, FollowOptions options = {}) const;

  // Runs a turn to its end and answers what it waits for. `on_wait` of the request is this function's own. Returns
  // early, with RunView::waiting() set, when the run waits for nothing that can be answered here; the run goes on
  // waiting. Throws what follow(), `approve`, `on_update` and the answering calls throw. No function runs any more
  // then.
  [[nodiscard]] RunView run(v1::RunTurnRequest request, RunOptions options = {}) const;

  // Starts a turn and returns its ids at once. A turn without a request_id gets one, so that it can be tried again.
  [[nodiscard]] v1::StartTurnResponse start_turn(v1::StartTurnRequest request, const CallOptions& options = {}) const;

  // Makes any other call that is no stream: client.call(&v1::TurnService::Stub::GetRun, request). What the contract
  // calls idempotent is tried up to four times while the server is not there; nothing else is tried twice. Throws
  // Error, DeadlineExceeded or Cancelled.
  template <class Stub, class Asked, class Answer>
  Answer call(grpc::Status (Stub::*method)(grpc::ClientContext*, const Asked&, Answer*),
              const std::type_identity_t<Asked>& request, const CallOptions& options = {}) const {
    Stub stub(channel());
    Answer answer;
    perform([&](grpc::ClientContext* context) { return (stub.*method)(context, request, &answer); }, options);
    return answer;
  }

  // What to make a generated stub of, for calls in another manner.
  [[nodiscard]] const std::shared_ptr<grpc::Channel>& channel() const;
  // Puts the token into the context of such a call.
  void authorize(grpc::ClientContext& context) const;

 private:
  void perform(const std::function<grpc::Status(grpc::ClientContext*)>& call, const CallOptions& options) const;

  struct Connection;
  std::shared_ptr<const Connection> connection_;
};

// A turn of one message of the user.
v1::RunTurnRequest prompt(std::string text);

}  // namespace turnwire
