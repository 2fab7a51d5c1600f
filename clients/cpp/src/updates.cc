// The calls of follow(). What a frame or an end means is decided in cursor.cc.
#include "turnwire/updates.h"

#include <grpcpp/client_context.h>
#include <grpcpp/support/sync_stream.h>

#include <memory>
#include <utility>
#include <variant>

#include "turnwire/client.h"
#include "turnwire/errors.h"
#include "turnwire/v1/turn_service.grpc.pb.h"
#include "waiting.h"

namespace turnwire {
namespace {

template <class Response>
std::optional<Frame> read(grpc::ClientReader<Response>& stream) {
  Response response;
  if (!stream.Read(&response)) return std::nullopt;
  Frame frame;
  frame.events.reserve(static_cast<std::size_t>(response.events_size()));
  for (v1::RunEvent& event : *response.mutable_events()) frame.events.push_back(std::move(event));
  frame.epoch = response.epoch();
  frame.through_sequence = response.through_sequence();
  if (response.has_rewind_to_sequence()) frame.rewind_to = response.rewind_to_sequence();
  return frame;
}

// One call of either method. It is cancelled when the token is asked to stop, and when it is destroyed before its end.
class Call {
 public:
  Call(const Client& client, const Request& request, const internal::Deadline& deadline, const std::stop_token& stop)
      : cancelled_(stop, internal::Cancelling{&context_}) {
    client.authorize(context_);
    internal::limit(context_, deadline);
    v1::TurnService::Stub stub(client.channel());
    if (const auto* turn = std::get_if<v1::RunTurnRequest>(&request)) {
      stream_ = stub.RunTurn(&context_, *turn);
    } else {
      stream_ = stub.WatchRun(&context_, std::get<v1::WatchRunRequest>(request));
    }
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;
  ~Call() {
    if (ended_) return;
    context_.TryCancel();
    finish();
  }

  // The next frame; nothing when the call has ended.
  std::optional<Frame> next() {
    return std::visit([](auto& stream) { return read(*stream); }, stream_);
  }

  grpc::Status finish() {
    ended_ = true;
    return std::visit([](auto& stream) { return stream->Finish(); }, stream_);
  }

 private:
  template <class Response>
  using Stream = std::unique_ptr<grpc::ClientReader<Response>>;

  grpc::ClientContext context_;
  std::stop_callback<internal::Cancelling> cancelled_;
  std::variant<Stream<v1::RunTurnResponse>, Stream<v1::WatchRunResponse>> stream_;
  bool ended_ = false;
};

}  // namespace

struct Updates::State {
  Client client;
  Reader reader;
  internal::Deadline deadline;
  std::stop_token stop;
  std::unique_ptr<Call> call;

  std::optional<Update> next() {
    while (!reader.finished()) {
      if (stop.stop_requested()) throw Cancelled();
      if (!call) call = std::make_unique<Call>(client, reader.request(), deadline, stop);
      if (std::optional<Frame> frame = call->next()) {
        if (std::optional<Update> update = reader.apply(std::move(*frame))) return update;
        continue;
      }
      const grpc::Status status = call->finish();
      call.reset();
      if (stop.stop_requested()) throw Cancelled();
      const std::optional<milliseconds> delay = status.ok() ? reader.cut() : reader.failed(status);
      if (!delay) break;
      internal::pause(*delay, deadline, stop);
    }
    return std::nullopt;
  }
};

Updates::Updates(std::unique_ptr<State> state) : state_(std::move(state)) {}
Updates::Updates(Updates&&) noexcept = default;
Updates& Updates::operator=(Updates&&) noexcept = default;
Updates::~Updates() = default;

std::optional<Update> Updates::next() {
  if (!state_) return std::nullopt;
  try {
    std::optional<Update> update = state_->next();
    if (!update) state_.reset();
    return update;
  } catch (...) {
    state_.reset();
    throw;
  }
}

Updates Client::follow(Request request, FollowOptions options) const {
  return Updates(std::make_unique<Updates::State>(Updates::State{*this, Reader(std::move(request), options.resume),
                                                                 internal::after(options.timeout),
                                                                 std::move(options.stop), nullptr}));
}

}  // namespace turnwire
