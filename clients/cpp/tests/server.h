// A server in the process that does what a test says.
#pragma once

#include <grpcpp/server.h>
#include <grpcpp/server_context.h>

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "events.h"
#include "turnwire/turnwire.h"
#include "turnwire/v1/mcp_server_service.grpc.pb.h"

namespace testing_server {

namespace v1 = turnwire::v1;

// Waits until it holds. After ten seconds the test has failed, and this throws.
void until(const std::function<bool()>& holds);

// A stream that somebody has called for.
struct Stream {
  grpc::ServerContext& context;
  // False when the caller has left.
  std::function<bool(const turnwire::Frame&)> write;

  bool send(events::Events of, std::int64_t epoch = 1) const { return write(events::frame(std::move(of), epoch)); }
  // Until the caller leaves.
  grpc::Status hang() const;
};

// Answers each stream with the next script, and any other call with the next status, else OK; keeps what it was asked.
class Server {
 public:
  using Script = std::function<grpc::Status(const Stream&)>;

  Server();
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  [[nodiscard]] const std::string& address() const { return address_; }
  [[nodiscard]] turnwire::Client client(const std::string& token = "") const;

  // What the next stream does. Without one it is refused.
  void then(Script script);
  // The events and then the end.
  void then(events::Events of, grpc::Status end = grpc::Status::OK);
  // What calls that are no stream end with, in their order.
  void answer(std::vector<grpc::Status> statuses);
  // Calls that are no stream wait until their caller leaves.
  void hold();

  // The requests of a method as they came.
  [[nodiscard]] std::vector<v1::RunTurnRequest> turns() const { return copy(turns_); }
  [[nodiscard]] std::vector<v1::WatchRunRequest> watches() const { return copy(watches_); }
  [[nodiscard]] std::vector<v1::StartTurnRequest> starts() const { return copy(starts_); }
  [[nodiscard]] std::vector<v1::ToolResult> results() const { return copy(results_); }
  [[nodiscard]] std::vector<v1::ResolveApprovalRequest> decisions() const { return copy(decisions_); }
  [[nodiscard]] std::vector<v1::CancelRunRequest> cancels() const { return copy(cancels_); }
  // "authorization" of every call.
  [[nodiscard]] std::vector<std::string> tokens() const { return copy(tokens_); }
  // Streams whose caller left, of those that hung.
  [[nodiscard]] int left() const;

 private:
  class Turns;
  class McpServers;

  template <class Kept>
  [[nodiscard]] std::vector<Kept> copy(const std::vector<Kept>& kept) const {
    const std::lock_guard lock(mutex_);
    return kept;
  }
  template <class Asked>
  void keep(std::vector<Asked>& kept, const Asked& asked) {
    const std::lock_guard lock(mutex_);
    kept.push_back(asked);
  }
  void see(const grpc::ServerContext& context);
  grpc::Status stream(grpc::ServerContext& context, std::function<bool(const turnwire::Frame&)> write);
  grpc::Status unary(const grpc::ServerContext& context);

  mutable std::mutex mutex_;
  std::deque<Script> scripts_;
  std::deque<grpc::Status> statuses_;
  bool held_ = false;
  std::vector<v1::RunTurnRequest> turns_;
  std::vector<v1::WatchRunRequest> watches_;
  std::vector<v1::StartTurnRequest> starts_;
  std::vector<v1::ToolResult> results_;
  std::vector<v1::ResolveApprovalRequest> decisions_;
  std::vector<v1::CancelRunRequest> cancels_;
  std::vector<std::string> tokens_;
  int left_ = 0;
  std::unique_ptr<Turns> service_;
  std::unique_ptr<McpServers> mcp_servers_;
  std::string address_;
  std::unique_ptr<grpc::Server> server_;  // the last member: its threads use the others
};

}  // namespace testing_server
